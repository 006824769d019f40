//! Checked handles: what C holds is a number in the form of a pointer, never an address.
//!
//! One table maps numbers to objects. A number names a slot and the slot's generation, so a handle that was
//! freed, freed twice, of another type, or never ours is told from a live one and is `Misuse`. The table
//! must never be locked in a forked child, where the lock may have no owner left, and no object may be
//! dropped while it is locked.

use std::any::Any;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pisession::{Error, ErrorKind, Result};

use crate::child;

/// A type whose handles are checked. The type is the one in the header, but only the library sees inside.
pub(crate) trait Handle: Any + Send + Sync {
    /// What a message calls it.
    const NAME: &'static str;
}

#[derive(Default)]
struct Slot {
    generation: u32,
    object: Option<(Arc<dyn Any + Send + Sync>, &'static str)>,
}

struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

static TABLE: RwLock<Table> = RwLock::new(Table { slots: Vec::new(), free: Vec::new() });

/// The process the first handle was made in; 0 before.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// How many plain pointers (sets, buffers, errors, batches) are with the host.
static PLAIN: AtomicUsize = AtomicUsize::new(0);

/// The bits of a handle from the top: 8 that no address has, 32 of generation, 24 of slot number.
const TAG: u64 = 0xD7;
const SLOT_BITS: u32 = 24;
const TAG_SHIFT: u32 = 56;

fn encode(slot: u32, generation: u32) -> usize {
    (TAG << TAG_SHIFT | u64::from(generation) << SLOT_BITS | u64::from(slot)) as usize
}

/// Slot and generation; none for what is no handle at all.
fn decode(number: usize) -> Option<(usize, u32)> {
    let number = number as u64;
    let slot = (number & ((1 << SLOT_BITS) - 1)) as usize;
    (number >> TAG_SHIFT == TAG).then_some((slot, (number >> SLOT_BITS) as u32))
}

// The layout above is that of a 64-bit pointer.
const _: () = assert!(usize::BITS == 64);

/// Refuses a forked child, before any lock.
pub(crate) fn check_process() -> Result<()> {
    let process = PROCESS.load(Ordering::Relaxed);
    if process == 0 || process == std::process::id() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Forked,
        format!("the library was in use in process {process}, and this is a fork of it"),
    )
    .with_hint("fork before the first handle is made, or run a new program in the child"))
}

fn read() -> Result<RwLockReadGuard<'static, Table>> {
    check_process()?;
    // Nothing that can panic runs while it is held.
    Ok(TABLE.read().unwrap_or_else(PoisonError::into_inner))
}

fn write() -> Result<RwLockWriteGuard<'static, Table>> {
    check_process()?;
    Ok(TABLE.write().unwrap_or_else(PoisonError::into_inner))
}

/// Gives `object` a handle.
pub(crate) fn insert<T: Handle>(object: T) -> Result<*mut T> {
    let object: Arc<dyn Any + Send + Sync> = Arc::new(object);
    // Another thread may be first; it is of the same process.
    let _ = PROCESS.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
    // After that: a child of this moment is refused before it waits for an installation that nobody ends.
    check_process()?;
    child::install();
    let mut table = write()?;
    let slot = match table.free.pop() {
        Some(slot) => slot,
        None => {
            let slot = table.slots.len();
            if slot >> SLOT_BITS != 0 {
                drop(table);
                return Err(Error::new(ErrorKind::TooLarge, "there are too many live handles")
                    .with_hint("free handles that are no longer used"));
            }
            table.slots.push(Slot::default());
            slot as u32
        }
    };
    let entry = &mut table.slots[slot as usize];
    entry.object = Some((object, T::NAME));
    Ok(std::ptr::without_provenance_mut(encode(slot, entry.generation)))
}

/// The object of a handle.
pub(crate) fn get<T: Handle>(handle: *const T) -> Result<Arc<T>> {
    let table = read()?;
    let found = table.find(handle.addr()).cloned();
    drop(table);
    let Some((object, name)) = found else { return Err(not_live::<T>(handle)) };
    object.downcast().map_err(|_| another_type::<T>(name))
}

/// Takes the handle away and gives its object. None for NULL.
pub(crate) fn remove<T: Handle>(handle: *mut T) -> Result<Option<Arc<T>>> {
    if handle.is_null() {
        return Ok(None);
    }
    let mut table = write()?;
    match table.find(handle.addr()) {
        None => return Err(not_live::<T>(handle)),
        Some((object, name)) if !object.is::<T>() => return Err(another_type::<T>(name)),
        Some(_) => {}
    }
    let object = table.take(handle.addr());
    drop(table);
    Ok(object.and_then(|object| object.downcast().ok()))
}

/// How many handles and plain pointers are with the host.
pub(crate) fn live() -> usize {
    let handles = read().map_or(0, |table| table.slots.len() - table.free.len() - table.retired());
    handles + PLAIN.load(Ordering::Relaxed)
}

impl Table {
    fn find(&self, number: usize) -> Option<&(Arc<dyn Any + Send + Sync>, &'static str)> {
        let (slot, generation) = decode(number)?;
        self.slots.get(slot).filter(|slot| slot.generation == generation)?.object.as_ref()
    }

    fn take(&mut self, number: usize) -> Option<Arc<dyn Any + Send + Sync>> {
        let (slot, _) = decode(number)?;
        let entry = self.slots.get_mut(slot)?;
        let (object, _) = entry.object.take()?;
        // A slot that has had every generation is not used again.
        if let Some(next) = entry.generation.checked_add(1) {
            entry.generation = next;
            self.free.push(slot as u32);
        }
        Some(object)
    }

    /// Slots that are empty for ever.
    fn retired(&self) -> usize {
        self.slots.iter().filter(|slot| slot.generation == u32::MAX && slot.object.is_none()).count()
    }
}

fn not_live<T: Handle>(handle: *const T) -> Error {
    if handle.is_null() {
        return Error::new(ErrorKind::Misuse, format!("the {} is NULL", T::NAME));
    }
    Error::new(ErrorKind::Misuse, format!("the pointer is no live {}", T::NAME))
        .with_hint("it was freed before, or did not come from this library")
}

fn another_type<T: Handle>(name: &str) -> Error {
    Error::new(ErrorKind::Misuse, format!("a {} was given where a {} is taken", name, T::NAME))
}

/// Hands `object` to the host as a plain pointer.
pub(crate) fn give<T>(object: T) -> *mut T {
    give_boxed(Box::new(object))
}

/// [`give`] for what is in a box already.
pub(crate) fn give_boxed<T>(object: Box<T>) -> *mut T {
    PLAIN.fetch_add(1, Ordering::Relaxed);
    Box::into_raw(object)
}

/// Takes back what [`give`] gave; nothing for NULL.
///
/// # Safety
/// `pointer` is NULL or came from [`give`] and was not taken back before (rule 3).
pub(crate) unsafe fn take_back<T>(pointer: *mut T) -> Option<Box<T>> {
    if pointer.is_null() {
        return None;
    }
    PLAIN.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: it came from `Box::into_raw` in `give`, once.
    Some(unsafe { Box::from_raw(pointer) })
}

/// The whole of most `_free` functions: 0, or the number of what was wrong with the handle.
pub(crate) fn free<T: Handle>(handle: *mut T) -> i32 {
    match remove(handle) {
        Ok(_) => 0,
        Err(error) => -error.kind().number(),
    }
}

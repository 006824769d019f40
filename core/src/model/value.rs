//! Values and lists: JSON at an address. Addresses are checked when they are made.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::json::Json;
use crate::model::write::Write;
use crate::session::reader::SessionReader;
use crate::storage::query::ListRead;

/// Where a value or a list is kept: a namespace and a key.
///
/// The namespace is not empty, neither part holds U+0000, the empty key is legal. Namespace `pi` and all
/// `pi.*` are the library's own. A value and a list of one address are two things. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    namespace: Arc<str>,
    key: Arc<str>,
}

impl Address {
    /// The address of `namespace` and `key`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidAddress`].
    pub fn new(namespace: impl Into<String>, key: impl Into<String>) -> Result<Self> {
        let (namespace, key) = (namespace.into(), key.into());
        if namespace.is_empty() {
            return Err(Error::new(ErrorKind::InvalidAddress, "a namespace must not be empty"));
        }
        if namespace.contains('\0') || key.contains('\0') {
            return Err(Error::new(ErrorKind::InvalidAddress, "a namespace or key must not contain U+0000"));
        }
        Ok(Self { namespace: namespace.into(), key: key.into() })
    }

    /// An address of the library's own; `key` must have been checked.
    pub(crate) fn known(namespace: &str, key: &str) -> Self {
        Self { namespace: namespace.into(), key: key.into() }
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether it belongs to the library: namespace `pi` or `pi.*`.
    pub fn is_reserved(&self) -> bool {
        &*self.namespace == "pi" || self.namespace.starts_with("pi.")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.key)
    }
}

/// A typed address of a value: what is stored there is the JSON that serde makes of a `T`.
///
/// ```
/// use pisession::{Context, Value, open_repository};
///
/// let ctx = Context::background();
/// let session = open_repository("memory:", Default::default())?.create(&Default::default(), &ctx)?;
/// let counter: Value<u64> = Value::new("app", "counter")?;
/// session.mutate(|mutator, ctx| mutator.commit(&[counter.set(&1)?], ctx), &ctx)?;
/// assert_eq!(counter.get(&session, &ctx)?, Some(1));
/// # Ok::<(), pisession::Error>(())
/// ```
pub struct Value<T>(Address, PhantomData<fn() -> T>);

/// A typed address of a list: its elements are the JSON that serde makes of a `T`.
pub struct ValueList<T>(Address, PhantomData<fn() -> T>);

macro_rules! typed_address {
    ($name:ident) => {
        impl<T> $name<T> {
            /// The typed address of `namespace` and `key`.
            ///
            /// # Errors
            /// [`ErrorKind::InvalidAddress`].
            pub fn new(namespace: impl Into<String>, key: impl Into<String>) -> Result<Self> {
                Ok(Self(Address::new(namespace, key)?, PhantomData))
            }

            /// What stands at an address of the library's own.
            pub(crate) fn of(address: Address) -> Self {
                Self(address, PhantomData)
            }

            /// The address without its type.
            pub fn address(&self) -> &Address {
                &self.0
            }
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                Self(self.0.clone(), PhantomData)
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

typed_address!(Value);
typed_address!(ValueList);

impl<T> Value<T> {
    /// The write that deletes it.
    pub fn delete(&self) -> Write {
        Write::DeleteValue(self.0.clone())
    }
}

impl<T> ValueList<T> {
    /// The write that deletes the whole list.
    pub fn delete(&self) -> Write {
        Write::DeleteList(self.0.clone())
    }
}

impl<T: Serialize> Value<T> {
    /// The write that sets it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidJson`] if `value` cannot be written as JSON.
    pub fn set(&self, value: &T) -> Result<Write> {
        Ok(Write::SetValue(self.0.clone(), Json::of(value)?))
    }
}

impl<T: DeserializeOwned> Value<T> {
    /// What is there, read through a session or inside a mutation; none when it is absent.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidJson`] if what is stored is not of the shape of `T`; see [`SessionReader`].
    pub fn get(&self, reader: &impl SessionReader, ctx: &Context) -> Result<Option<T>> {
        reader.get_value(&self.0, ctx)?.map(|stored| stored.value.read()).transpose()
    }
}

impl<T: Serialize> ValueList<T> {
    /// The write that appends `element`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidJson`] if `element` cannot be written as JSON.
    pub fn append(&self, element: &T) -> Result<Write> {
        Ok(Write::AppendList(self.0.clone(), Json::of(element)?))
    }
}

impl<T: DeserializeOwned> ValueList<T> {
    /// Elements of the list, each with its `seq`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidJson`] if an element is not of the shape of `T`; see [`SessionReader`].
    pub fn read(&self, reader: &impl SessionReader, read: &ListRead, ctx: &Context) -> Result<Vec<(u64, T)>> {
        let elements = reader.read_list(&self.0, read, ctx)?;
        elements.into_iter().map(|element| Ok((element.seq, element.value.read()?))).collect()
    }
}

/// A value as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredValue {
    /// Where it is.
    pub address: Address,
    /// What is there.
    pub value: Json,
    /// When it was set, in the session's order.
    pub seq: u64,
}

/// An element of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListElement {
    /// Its place in the session's order, and its cursor.
    pub seq: u64,
    /// What it is.
    pub value: Json,
}

/*
 * libpisession for C++: pisession.h as classes. Header only, C++17 and newer.
 *
 *     pisession::Repository repository = pisession::open_repository("sqlite:./sessions");
 *     pisession::Session session = repository.create();
 *     pisession::Branch main = session.create_branch("main");
 *     main.append_message(R"({"role":"user","content":"hello"})");
 *
 *     session.mutate([](auto &m) {                                   // from here on nobody else writes
 *         const auto count = m.get_value("app", "counter");
 *         pisession::Writes writes;
 *         writes.set_value("app", "counter", std::to_string(count ? std::stol(*count) + 1 : 1));
 *         m.commit(writes);
 *     });
 *
 *     for (const auto &entry : main.find_entries()) std::cout << entry.id << ' ' << entry.payload << '\n';
 *     session.close();
 *
 * What holds everywhere (of the rest, docs/c-contract.md):
 *
 * Classes    One for each handle and object of C. They can be moved, not copied, and free what they hold. They may
 *            be destroyed in any order: children keep what they need. A moved-from handle gives Misuse, a
 *            moved-from batch InvalidArgument, a moved-from set is empty.
 * Failure    throws an Error. Else only std::bad_alloc is, std::out_of_range for an index, and
 *            std::bad_variant_access for a Cell of another type.
 * Texts      In: std::string_view, read before the call returns. Out: std::string; in the items of sets
 *            std::string_view, which live as long as the set. What may be absent is a std::optional. UTF-8.
 *            JSON is text, and comes back exactly as it was stored.
 * Options    Aggregates whose members all have defaults, so that C++20 can name the ones it sets:
 *            {.type = "message", .limit = 10}.
 * Context    The last parameter: cancellation, deadline, trace parent. Absent, it is the background.
 * Threads    Every handle may be used from any thread at once, an EntryCursor from one at a time. To move, assign or
 *            destroy an object is for one thread, while no other uses it.
 */

#ifndef PISESSION_HPP
#define PISESSION_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <pisession.h>

namespace pisession {

// --------------------------------------------------------------------------------------------------------------
// Versions
// --------------------------------------------------------------------------------------------------------------

/// The version of the library that the program runs with, for example "0.1.0".
[[nodiscard]] inline std::string_view version() noexcept { return pi_version(); }

/// The version of the SQLite inside the library.
[[nodiscard]] inline std::string_view sqlite_version() noexcept { return pi_sqlite_version(); }

// --------------------------------------------------------------------------------------------------------------
// Errors
// --------------------------------------------------------------------------------------------------------------

/// What kind of failure it is; each is described at its PI_ number in pisession.h. A newer library may fail with
/// kinds that are not named here.
enum class ErrorKind : std::int32_t {
    Io = PI_IO,
    Full = PI_FULL,
    Busy = PI_BUSY,
    SessionBusy = PI_SESSION_BUSY,
    Cancelled = PI_CANCELLED,
    DeadlineExceeded = PI_DEADLINE_EXCEEDED,
    Closed = PI_CLOSED,
    ReadOnly = PI_READ_ONLY,
    LegacyReadOnly = PI_LEGACY_READ_ONLY,
    Unsupported = PI_UNSUPPORTED,
    UnknownSession = PI_UNKNOWN_SESSION,
    SessionExists = PI_SESSION_EXISTS,
    AmbiguousSession = PI_AMBIGUOUS_SESSION,
    UnknownBranch = PI_UNKNOWN_BRANCH,
    UnknownEntry = PI_UNKNOWN_ENTRY,
    UnknownTarget = PI_UNKNOWN_TARGET,
    MissingParent = PI_MISSING_PARENT,
    BranchExists = PI_BRANCH_EXISTS,
    DuplicateId = PI_DUPLICATE_ID,
    EntryNotOnBranch = PI_ENTRY_NOT_ON_BRANCH,
    InvalidId = PI_INVALID_ID,
    InvalidAddress = PI_INVALID_ADDRESS,
    InvalidBranch = PI_INVALID_BRANCH,
    InvalidLane = PI_INVALID_LANE,
    InvalidJson = PI_INVALID_JSON,
    InvalidArgument = PI_INVALID_ARGUMENT,
    TooLarge = PI_TOO_LARGE,
    ReservedAddress = PI_RESERVED_ADDRESS,
    PendingAssistant = PI_PENDING_ASSISTANT,
    CommitAttempted = PI_COMMIT_ATTEMPTED,
    MutationEnded = PI_MUTATION_ENDED,
    NestedMutation = PI_NESTED_MUTATION,
    NotASession = PI_NOT_A_SESSION,
    UnsupportedVersion = PI_UNSUPPORTED_VERSION,
    Corrupt = PI_CORRUPT,
    FileChanged = PI_FILE_CHANGED,
    StorageFault = PI_STORAGE_FAULT,
    ForeignSqlite = PI_FOREIGN_SQLITE,
    Forked = PI_FORKED,
    Misuse = PI_MISUSE,
    Panic = PI_PANIC,
};

namespace detail {
template <auto Free>
struct Freeing {
    template <class T>
    void operator()(T *object) const noexcept {
        static_cast<void>(Free(object));
    }
};

/// An object of C that is freed with the function of its type.
template <class T, auto Free>
using Owned = std::unique_ptr<T, Freeing<Free>>;

struct ErrorDetails {
    std::int32_t code;
    std::string name;
    std::optional<std::string> hint, path, id;
    std::optional<std::uint64_t> line, offset;
    int errno_value;
    bool retryable;
};
} // namespace detail

/// What failed, where, and what to do about it: what every function of the library throws. what() is a sentence for
/// people, kind() is for programs. Copies share their contents, and copying does not fail.
class Error : public std::runtime_error {
  public:
    Error(const std::string &message, std::shared_ptr<const detail::ErrorDetails> details)
        : std::runtime_error(message), details_(std::move(details)) {}

    /// What to decide by.
    [[nodiscard]] ErrorKind kind() const noexcept { return static_cast<ErrorKind>(details_->code); }
    /// The name of the kind, for example "SessionBusy".
    [[nodiscard]] const std::string &name() const noexcept { return details_->name; }
    /// The number of the kind, as C has it.
    [[nodiscard]] std::int32_t code() const noexcept { return details_->code; }
    /// What to do about it, where that is known.
    [[nodiscard]] const std::optional<std::string> &hint() const noexcept { return details_->hint; }
    /// The file it is about, as the bytes of its name.
    [[nodiscard]] const std::optional<std::string> &path() const noexcept { return details_->path; }
    /// The session, entry, branch or other id it is about.
    [[nodiscard]] const std::optional<std::string> &id() const noexcept { return details_->id; }
    /// The line in the file, from 1.
    [[nodiscard]] std::optional<std::uint64_t> line() const noexcept { return details_->line; }
    /// The byte in the file or in the text given; with a line, that of the line's start.
    [[nodiscard]] std::optional<std::uint64_t> offset() const noexcept { return details_->offset; }
    /// The operating system's error number, for Io and Full; 0 where there is none.
    [[nodiscard]] int os_error() const noexcept { return details_->errno_value; }
    /// Whether the same call may succeed later without anything else being changed.
    [[nodiscard]] bool retryable() const noexcept { return details_->retryable; }

  private:
    std::shared_ptr<const detail::ErrorDetails> details_;
};

/// The session is open for writing elsewhere: ErrorKind::SessionBusy. One of the kinds that programs catch to go on;
/// the others are told apart by Error::kind.
class SessionBusyError : public Error {
    using Error::Error;
};

/// There is no session of that id: ErrorKind::UnknownSession.
class UnknownSessionError : public Error {
    using Error::Error;
};

/// There is a session of that id already: ErrorKind::SessionExists.
class SessionExistsError : public Error {
    using Error::Error;
};

/// The call's context was cancelled: ErrorKind::Cancelled.
class CancelledError : public Error {
    using Error::Error;
};

/// The call's deadline passed: ErrorKind::DeadlineExceeded.
class DeadlineExceededError : public Error {
    using Error::Error;
};

class Context;
class Repository;

namespace detail {
[[noreturn]] inline void raise(std::int32_t code, pi_error *object) {
    const Owned<pi_error, pi_error_free> error(object);
    const auto text = [](const char *data) {
        return data == nullptr ? std::nullopt : std::optional<std::string>(data);
    };
    const auto place = [](std::int64_t number) {
        return number < 0 ? std::nullopt : std::optional<std::uint64_t>(static_cast<std::uint64_t>(number));
    };
    const std::string message = text(pi_error_message(object)).value_or("failed without an error object");
    auto details = std::make_shared<const ErrorDetails>(ErrorDetails{
        code, text(pi_error_kind(object)).value_or(""), text(pi_error_hint(object)), text(pi_error_path(object)),
        text(pi_error_id(object)), place(pi_error_line(object)), place(pi_error_offset(object)),
        static_cast<int>(pi_error_errno(object)), pi_error_retryable(object) == 1});
    switch (code) {
    case PI_SESSION_BUSY: throw SessionBusyError(message, std::move(details));
    case PI_UNKNOWN_SESSION: throw UnknownSessionError(message, std::move(details));
    case PI_SESSION_EXISTS: throw SessionExistsError(message, std::move(details));
    case PI_CANCELLED: throw CancelledError(message, std::move(details));
    case PI_DEADLINE_EXCEEDED: throw DeadlineExceededError(message, std::move(details));
    default: throw Error(message, std::move(details));
    }
}

/// An argument of C++ as the arguments of C that it becomes.
template <class T, class = std::enable_if_t<std::is_scalar_v<T>>>
[[nodiscard]] std::tuple<T> arguments_of(T value) noexcept {
    return {value};
}

[[nodiscard]] inline std::tuple<const char *, std::size_t> arguments_of(std::string_view text) noexcept {
    return {text.data() == nullptr ? "" : text.data(), text.size()};
}

[[nodiscard]] inline std::tuple<const char *, std::size_t>
arguments_of(const std::optional<std::string_view> &text) noexcept {
    return text ? arguments_of(*text) : std::tuple<const char *, std::size_t>{nullptr, 0};
}

[[nodiscard]] inline std::tuple<const char *, std::size_t> arguments_of(const std::filesystem::path &path) noexcept {
    return arguments_of(std::string_view(path.native()));
}

[[nodiscard]] inline std::tuple<const pi_context *> arguments_of(const Context &context) noexcept;

/// Calls a function of C, whose error it takes care of.
template <class Function, class... Arguments>
void call(Function function, const Arguments &...arguments) {
    pi_error *error = nullptr;
    const std::int32_t code =
        std::apply(function, std::tuple_cat(arguments_of(arguments)..., std::make_tuple(&error)));
    if (code != PI_OK) raise(code, error);
}

/// Calls a function of C that hands out an object, by the parameter before its context.
template <class T, class Function, class... Arguments>
[[nodiscard]] T *made_by(Function function, const Context &context, const Arguments &...arguments) {
    T *object = nullptr;
    call(function, arguments..., &object, context);
    return object;
}

/// Calls a function of C that hands out an object and takes no context.
template <class T, class Function, class... Arguments>
[[nodiscard]] T *made(Function function, const Arguments &...arguments) {
    T *object = nullptr;
    call(function, arguments..., &object);
    return object;
}

/// What an owned text of C holds. Frees it.
[[nodiscard]] inline std::optional<std::string> optional_text(pi_buf *text) {
    const Owned<pi_buf, pi_buf_free> owned(text);
    if (!owned) return std::nullopt;
    return std::string(pi_buf_data(text), pi_buf_len(text));
}

[[nodiscard]] inline std::string text(pi_buf *text) { return optional_text(text).value_or(std::string()); }

[[nodiscard]] inline std::string_view view(const char *data, std::size_t len) noexcept {
    return data == nullptr ? std::string_view() : std::string_view(data, len);
}

[[nodiscard]] inline std::optional<std::string_view> optional_view(const char *data, std::size_t len) noexcept {
    return data == nullptr ? std::nullopt : std::optional<std::string_view>(std::string_view(data, len));
}

[[nodiscard]] inline std::optional<std::string> optional_copy(const char *data, std::size_t len) {
    return data == nullptr ? std::nullopt : std::optional<std::string>(std::string(data, len));
}

/// A number that C gives as -1 where there is none.
[[nodiscard]] inline std::optional<std::uint64_t> optional_number(std::int64_t number) noexcept {
    return number < 0 ? std::nullopt : std::optional<std::uint64_t>(static_cast<std::uint64_t>(number));
}

/// A kind that C gives as PI_OK where there is none.
[[nodiscard]] inline std::optional<ErrorKind> optional_kind(std::int64_t code) noexcept {
    return code == PI_OK ? std::nullopt : std::optional<ErrorKind>(static_cast<ErrorKind>(code));
}

/// A number of C that may be absent: a pointer into `number`, which must outlive the call.
template <class Number>
[[nodiscard]] const Number *pointer(const std::optional<Number> &number) noexcept {
    return number ? &*number : nullptr;
}

/// What the classes of handles share. T is the type of C, Free its function to free.
template <class T, auto Free>
class Handle {
  public:
    /// The handle of C, which stays this object's. NULL when it was moved from.
    [[nodiscard]] T *handle() const noexcept { return owned_.get(); }
    /// False when it was moved from.
    [[nodiscard]] explicit operator bool() const noexcept { return owned_ != nullptr; }
    /// Gives the handle of C away: the caller frees it.
    [[nodiscard]] T *release() noexcept { return owned_.release(); }

  protected:
    explicit Handle(T *handle) noexcept : owned_(handle) {}

  private:
    Owned<T, Free> owned_;
};

/// The object a temporary iterator gives out with `->`.
template <class T>
class Arrow {
  public:
    explicit Arrow(T item) : item_(std::move(item)) {}
    [[nodiscard]] const T *operator->() const noexcept { return &item_; }

  private:
    T item_;
};

/// Goes over what is there by index. Source has `Item at(std::size_t)` and is cheap to copy. Random access in
/// C++20; in C++17 an input iterator, as it makes its items.
template <class Source, class Item>
class IndexIterator {
  public:
    using iterator_category = std::input_iterator_tag;
    using iterator_concept = std::random_access_iterator_tag;
    using value_type = Item;
    using difference_type = std::ptrdiff_t;
    using reference = Item;
    using pointer = Arrow<Item>;

    IndexIterator() = default;
    IndexIterator(Source source, difference_type index) noexcept : source_(source), index_(index) {}

    [[nodiscard]] Item operator*() const { return source_.at(static_cast<std::size_t>(index_)); }
    [[nodiscard]] Arrow<Item> operator->() const { return Arrow<Item>(**this); }
    [[nodiscard]] Item operator[](difference_type distance) const { return *(*this + distance); }

    IndexIterator &operator+=(difference_type distance) noexcept {
        index_ += distance;
        return *this;
    }
    IndexIterator &operator-=(difference_type distance) noexcept { return *this += -distance; }
    IndexIterator &operator++() noexcept { return *this += 1; }
    IndexIterator &operator--() noexcept { return *this -= 1; }
    IndexIterator operator++(int) noexcept {
        IndexIterator before = *this;
        ++*this;
        return before;
    }
    IndexIterator operator--(int) noexcept {
        IndexIterator before = *this;
        --*this;
        return before;
    }

    [[nodiscard]] friend IndexIterator operator+(IndexIterator at, difference_type distance) noexcept {
        return at += distance;
    }
    [[nodiscard]] friend IndexIterator operator+(difference_type distance, IndexIterator at) noexcept {
        return at += distance;
    }
    [[nodiscard]] friend IndexIterator operator-(IndexIterator at, difference_type distance) noexcept {
        return at -= distance;
    }
    [[nodiscard]] friend difference_type operator-(const IndexIterator &a, const IndexIterator &b) noexcept {
        return a.index_ - b.index_;
    }
    [[nodiscard]] friend bool operator==(const IndexIterator &a, const IndexIterator &b) noexcept {
        return a.index_ == b.index_;
    }
    [[nodiscard]] friend bool operator!=(const IndexIterator &a, const IndexIterator &b) noexcept { return !(a == b); }
    [[nodiscard]] friend bool operator<(const IndexIterator &a, const IndexIterator &b) noexcept {
        return a.index_ < b.index_;
    }
    [[nodiscard]] friend bool operator>(const IndexIterator &a, const IndexIterator &b) noexcept { return b < a; }
    [[nodiscard]] friend bool operator<=(const IndexIterator &a, const IndexIterator &b) noexcept { return !(b < a); }
    [[nodiscard]] friend bool operator>=(const IndexIterator &a, const IndexIterator &b) noexcept { return !(a < b); }

  private:
    Source source_{};
    difference_type index_ = 0;
};

[[noreturn]] inline void beyond_the_end(std::size_t index, std::size_t size) {
    throw std::out_of_range("index " + std::to_string(index) + " is beyond the end: there are " +
                            std::to_string(size));
}

/// What the ranges share. Source knows the object of C, has `Item at(std::size_t)` and `std::size_t size()`, and is
/// cheap to copy; Derived gives it with `source()`.
template <class Derived, class Source, class Item>
class Range {
  public:
    using value_type = Item;
    using iterator = IndexIterator<Source, Item>;
    using const_iterator = iterator;

    [[nodiscard]] std::size_t size() const noexcept { return source().size(); }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    /// std::out_of_range beyond the end, as front and back of what is empty.
    [[nodiscard]] Item operator[](std::size_t index) const { return source().at(index); }
    [[nodiscard]] Item front() const { return (*this)[0]; }
    [[nodiscard]] Item back() const { return (*this)[empty() ? 0 : size() - 1]; }
    [[nodiscard]] iterator begin() const noexcept { return {source(), 0}; }
    [[nodiscard]] iterator end() const noexcept { return {source(), static_cast<std::ptrdiff_t>(size())}; }

  private:
    [[nodiscard]] Source source() const noexcept { return static_cast<const Derived &>(*this).source(); }
};

/// How C keeps a set of such items: specialised for each.
template <class Item>
struct SetOf;

/// A set of C that something else owns.
template <class Item>
struct SetSource {
    const typename SetOf<Item>::Handle *set = nullptr;

    [[nodiscard]] std::size_t size() const noexcept { return SetOf<Item>::count(set); }
    [[nodiscard]] Item at(std::size_t index) const {
        typename SetOf<Item>::Raw raw{};
        if (SetOf<Item>::get(set, index, &raw, sizeof raw) != PI_OK) beyond_the_end(index, size());
        return SetOf<Item>::view(raw);
    }
};
} // namespace detail

// --------------------------------------------------------------------------------------------------------------
// Contexts
// --------------------------------------------------------------------------------------------------------------

/// The authority of the calls it is given to: cancellation, deadline, trace parent. To be shared between threads by
/// reference. Cancelling never undoes a commit that was admitted.
class Context : public detail::Handle<pi_context, pi_context_free> {
  public:
    /// A context without a deadline.
    Context() : Handle(detail::made<pi_context>(pi_context_new)) {}

    /// A context whose deadline is so long from now.
    explicit Context(std::chrono::milliseconds timeout) : Context() { set_timeout(timeout); }

    /// The context of calls that are given none: it is never cancelled and has no deadline.
    [[nodiscard]] static const Context &background() noexcept {
        static const Context background(nullptr);
        return background;
    }

    /// Gives it a deadline, so long from now; an earlier one it has already stays. Holds for calls made from now on:
    /// past the deadline they throw DeadlineExceededError.
    void set_timeout(std::chrono::milliseconds timeout) {
        const auto milliseconds = static_cast<std::uint64_t>(timeout.count() < 0 ? 0 : timeout.count());
        detail::call(pi_context_set_timeout, handle(), milliseconds);
    }

    /// Gives it a W3C trace parent, the parent of the spans of its calls. InvalidArgument if the text is none.
    void set_traceparent(std::string_view traceparent) {
        detail::call(pi_context_set_traceparent, handle(), traceparent);
    }

    /// Cancels it: calls that wait with it, in any thread, throw CancelledError, and so do later ones.
    void cancel() { detail::call(pi_context_cancel, handle()); }

  private:
    explicit Context(std::nullptr_t) noexcept : Handle(nullptr) {}
};

namespace detail {
inline std::tuple<const pi_context *> arguments_of(const Context &context) noexcept { return {context.handle()}; }
} // namespace detail

// --------------------------------------------------------------------------------------------------------------
// Sets
// --------------------------------------------------------------------------------------------------------------

/// What a read found: a sized random-access range of items that are views into it. Moving it leaves the views and
/// iterators valid. Any number of threads may read it.
template <class Item>
class Set : public detail::Handle<typename detail::SetOf<Item>::Handle, detail::SetOf<Item>::free>,
            public detail::Range<Set<Item>, detail::SetSource<Item>, Item> {
  public:
    /// Takes over a set of C. NULL is an empty one.
    explicit Set(typename detail::SetOf<Item>::Handle *set) noexcept : Set::Handle(set) {}

  private:
    friend detail::Range<Set, detail::SetSource<Item>, Item>;
    [[nodiscard]] detail::SetSource<Item> source() const noexcept { return {this->handle()}; }
};

/// One entry: views that are valid as long as the set they are from, or until the cursor's next step.
struct EntryView {
    std::string_view id;
    /// Absent for a root.
    std::optional<std::string_view> parent_id;
    /// Its place in the session's order.
    std::uint64_t seq = 0;
    /// When its commit was made, Unix ms.
    std::int64_t timestamp = 0;
    /// "message", "compaction", "branch_summary" or "custom".
    std::string_view type;
    /// Of custom entries only.
    std::optional<std::string_view> custom_type;
    /// The JSON object of the type's payload fields, exactly as stored: {"message":...} for a message. Empty in a
    /// structure.
    std::string_view payload;
};

/// One entry, as EntryView, that owns its texts.
struct Entry {
    Entry() = default;
    explicit Entry(const EntryView &view)
        : id(view.id), parent_id(view.parent_id), seq(view.seq), timestamp(view.timestamp), type(view.type),
          custom_type(view.custom_type), payload(view.payload) {}

    std::string id;
    std::optional<std::string> parent_id;
    std::uint64_t seq = 0;
    std::int64_t timestamp = 0;
    std::string type;
    std::optional<std::string> custom_type;
    std::string payload;
};

/// One value: views that are valid as long as the set they are from.
struct ValueView {
    std::string_view name_space;
    std::string_view key;
    /// Its JSON, exactly as stored.
    std::string_view value;
    /// When it was set, in the session's order.
    std::uint64_t seq = 0;
};

/// One value that owns its text.
struct StoredValue {
    /// Its JSON, exactly as stored.
    std::string value;
    /// When it was set, in the session's order.
    std::uint64_t seq = 0;
};

/// Where a value or a list stands: views that are valid as long as the set they are from.
struct AddressView {
    std::string_view name_space;
    std::string_view key;
};

/// One element of a list: a view that is valid as long as the set it is from.
struct ElementView {
    /// Its place in the session's order, and its cursor.
    std::uint64_t seq = 0;
    /// Its JSON, exactly as stored.
    std::string_view value;
};

/// One branch: views that are valid as long as the set they are from.
struct BranchView {
    std::string_view name;
    /// Absent for an empty branch.
    std::optional<std::string_view> tip_id;
};

/// One row of the ledger: views that are valid as long as the set they are from.
struct UsageRowView {
    std::string_view id;
    /// Its place in the session's order.
    std::uint64_t seq = 0;
    /// The JSON object of its other fields, exactly as stored.
    std::string_view payload;
};

/// One session of a listing: views that are valid as long as the set they are from.
struct SessionView {
    /// Absent if the session cannot be read; see problem.
    std::optional<std::string_view> id;
    /// When it was made, Unix ms; -1 if it cannot be read.
    std::int64_t created_at = -1;
    /// Version of the stored form; 0 if it cannot be read.
    std::uint64_t storage_version = 0;
    /// The working folder it was made for.
    std::optional<std::string_view> cwd;
    /// The session it was forked or copied from.
    std::optional<std::string_view> parent_session_id;
    /// The file it is in, as the bytes of its name.
    std::optional<std::string_view> path;
    /// When it was last written, Unix ms, where that is known.
    std::optional<std::int64_t> modified_at;
    /// How it is kept: "memory", "sqlite", "sqlite-container", "jsonl-4", ...
    std::string_view format;
    /// Its name, when details were asked for.
    std::optional<std::string_view> name;
    /// How many messages it has, when details were asked for.
    std::optional<std::uint64_t> message_count;
    /// Why it cannot be read.
    std::optional<std::string_view> problem;
    /// The kind of that problem.
    std::optional<ErrorKind> problem_kind;
};

/// One thing that is wrong with a session: views that are valid as long as the set or the Repair they are from.
struct FindingView {
    /// What it is, for example "tip_of_nothing".
    std::string_view kind;
    /// It in a sentence.
    std::string_view message;
    /// The entry, branch or other id it is about.
    std::optional<std::string_view> id;
    /// The line of the file it is in, from 1.
    std::optional<std::uint64_t> line;
    /// Where it begins in the file, in bytes.
    std::optional<std::uint64_t> offset;
    /// How many bytes of the file it takes.
    std::optional<std::uint64_t> length;
    /// What to do about it.
    std::optional<std::string_view> hint;
    /// The kind of the error that reading ended with.
    std::optional<ErrorKind> error_kind;
};

/// What became of one session of a repository that was converted: views that are valid as long as the set.
struct ConversionView {
    /// Absent if the session cannot be read.
    std::optional<std::string_view> id;
    /// The file it was in, as the bytes of its name.
    std::optional<std::string_view> source_path;
    /// The file it is in now, as the bytes of its name.
    std::optional<std::string_view> path;
    /// False if it was there already, or failed.
    bool made = false;
    /// Why it failed.
    std::optional<std::string_view> problem;
    /// The kind of that problem.
    std::optional<ErrorKind> problem_kind;
};

namespace detail {
template <class H, class R, auto Count, auto Get, auto Free>
struct SetFunctions {
    using Handle = H;
    using Raw = R;
    static constexpr auto count = Count;
    static constexpr auto get = Get;
    static constexpr auto free = Free;
};

[[nodiscard]] inline EntryView entry_view(const pi_entry &raw) noexcept {
    return {view(raw.id, raw.id_len),
            optional_view(raw.parent_id, raw.parent_id_len),
            raw.seq,
            raw.timestamp,
            view(raw.type, raw.type_len),
            optional_view(raw.custom_type, raw.custom_type_len),
            view(raw.payload, raw.payload_len)};
}

template <>
struct SetOf<EntryView> : SetFunctions<pi_entries, pi_entry, pi_entries_count, pi_entries_get, pi_entries_free> {
    [[nodiscard]] static EntryView view(const pi_entry &raw) noexcept { return entry_view(raw); }
};

template <>
struct SetOf<ValueView> : SetFunctions<pi_values, pi_value, pi_values_count, pi_values_get, pi_values_free> {
    [[nodiscard]] static ValueView view(const pi_value &raw) noexcept {
        return {detail::view(raw.name_space, raw.name_space_len), detail::view(raw.key, raw.key_len),
                detail::view(raw.value, raw.value_len), raw.seq};
    }
};

template <>
struct SetOf<AddressView>
    : SetFunctions<pi_addresses, pi_address, pi_addresses_count, pi_addresses_get, pi_addresses_free> {
    [[nodiscard]] static AddressView view(const pi_address &raw) noexcept {
        return {detail::view(raw.name_space, raw.name_space_len), detail::view(raw.key, raw.key_len)};
    }
};

template <>
struct SetOf<ElementView>
    : SetFunctions<pi_elements, pi_element, pi_elements_count, pi_elements_get, pi_elements_free> {
    [[nodiscard]] static ElementView view(const pi_element &raw) noexcept {
        return {raw.seq, detail::view(raw.value, raw.value_len)};
    }
};

template <>
struct SetOf<BranchView>
    : SetFunctions<pi_branches, pi_branch_info, pi_branches_count, pi_branches_get, pi_branches_free> {
    [[nodiscard]] static BranchView view(const pi_branch_info &raw) noexcept {
        return {detail::view(raw.name, raw.name_len), optional_view(raw.tip_id, raw.tip_id_len)};
    }
};

template <>
struct SetOf<UsageRowView>
    : SetFunctions<pi_usage_rows, pi_usage_row, pi_usage_rows_count, pi_usage_rows_get, pi_usage_rows_free> {
    [[nodiscard]] static UsageRowView view(const pi_usage_row &raw) noexcept {
        return {detail::view(raw.id, raw.id_len), raw.seq, detail::view(raw.payload, raw.payload_len)};
    }
};

template <>
struct SetOf<std::string_view> : SetFunctions<pi_ids, pi_id, pi_ids_count, pi_ids_get, pi_ids_free> {
    [[nodiscard]] static std::string_view view(const pi_id &raw) noexcept { return detail::view(raw.id, raw.id_len); }
};

template <>
struct SetOf<SessionView>
    : SetFunctions<pi_sessions, pi_session_info, pi_sessions_count, pi_sessions_get, pi_sessions_free> {
    [[nodiscard]] static SessionView view(const pi_session_info &raw) noexcept {
        SessionView session;
        session.id = optional_view(raw.id, raw.id_len);
        session.created_at = raw.created_at;
        session.storage_version = raw.storage_version;
        session.cwd = optional_view(raw.cwd, raw.cwd_len);
        session.parent_session_id = optional_view(raw.parent_session_id, raw.parent_session_id_len);
        session.path = optional_view(raw.path, raw.path_len);
        if (raw.modified_at >= 0) session.modified_at = raw.modified_at;
        session.format = detail::view(raw.format, raw.format_len);
        session.name = optional_view(raw.name, raw.name_len);
        session.message_count = optional_number(raw.message_count);
        session.problem = optional_view(raw.problem, raw.problem_len);
        session.problem_kind = optional_kind(raw.problem_code);
        return session;
    }
};

template <>
struct SetOf<FindingView>
    : SetFunctions<pi_findings, pi_finding, pi_findings_count, pi_findings_get, pi_findings_free> {
    [[nodiscard]] static FindingView view(const pi_finding &raw) noexcept {
        return {detail::view(raw.kind, raw.kind_len),
                detail::view(raw.message, raw.message_len),
                optional_view(raw.id, raw.id_len),
                optional_number(raw.line),
                optional_number(raw.offset),
                optional_number(raw.length),
                optional_view(raw.hint, raw.hint_len),
                optional_kind(raw.error_code)};
    }
};

template <>
struct SetOf<ConversionView>
    : SetFunctions<pi_conversions, pi_conversion, pi_conversions_count, pi_conversions_get, pi_conversions_free> {
    [[nodiscard]] static ConversionView view(const pi_conversion &raw) noexcept {
        return {optional_view(raw.id, raw.id_len),
                optional_view(raw.source_path, raw.source_path_len),
                optional_view(raw.path, raw.path_len),
                raw.made == 1,
                optional_view(raw.problem, raw.problem_len),
                optional_kind(raw.problem_code)};
    }
};
} // namespace detail

/// Entries that a scan found.
using Entries = Set<EntryView>;
/// Values that a scan found.
using Values = Set<ValueView>;
/// Where values or lists stand.
using Addresses = Set<AddressView>;
/// Elements of a list.
using Elements = Set<ElementView>;
/// The branches of a session, names ascending.
using Branches = Set<BranchView>;
/// Rows of the ledger.
using UsageRows = Set<UsageRowView>;
/// The ids of the entries that an append made, in their order.
using Ids = Set<std::string_view>;
/// The sessions of a repository.
using Sessions = Set<SessionView>;
/// What a check found.
using Findings = Set<FindingView>;
/// What became of the sessions of a repository, newest first.
using Conversions = Set<ConversionView>;

/// A part of a larger object: a sized random-access range, valid as long as that one.
template <class Item, class Source = detail::SetSource<Item>>
class Items : public detail::Range<Items<Item, Source>, Source, Item> {
  public:
    explicit Items(Source source) noexcept : source_(source) {}

  private:
    friend detail::Range<Items, Source, Item>;
    [[nodiscard]] Source source() const noexcept { return source_; }
    Source source_;
};

/// Entries one by one, read in pages: for scans that may be long. An input range that is gone through once.
/// Used by one thread at a time; a second one gets Misuse.
class EntryCursor : public detail::Handle<pi_cursor, pi_cursor_free> {
  public:
    /// Takes over a cursor of C.
    explicit EntryCursor(pi_cursor *cursor) noexcept : Handle(cursor) {}

    /// The next entry, valid until the next step; nothing at the end. After an error it is at its end.
    [[nodiscard]] std::optional<EntryView> next() { return step(handle()); }

    struct End {};

    class Iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using iterator_concept = std::input_iterator_tag;
        using value_type = EntryView;
        using difference_type = std::ptrdiff_t;
        using reference = const EntryView &;
        using pointer = const EntryView *;

        Iterator() = default;
        explicit Iterator(pi_cursor *cursor) : cursor_(cursor), entry_(step(cursor)) {}

        [[nodiscard]] const EntryView &operator*() const noexcept { return *entry_; }
        [[nodiscard]] const EntryView *operator->() const noexcept { return &*entry_; }
        Iterator &operator++() {
            entry_ = step(cursor_);
            return *this;
        }
        void operator++(int) { ++*this; }

        [[nodiscard]] friend bool operator==(const Iterator &at, End) noexcept { return !at.entry_; }
        [[nodiscard]] friend bool operator!=(const Iterator &at, End) noexcept { return at.entry_.has_value(); }

      private:
        pi_cursor *cursor_ = nullptr;
        std::optional<EntryView> entry_;
    };

    /// Goes to the next entry, which is the first the first time.
    [[nodiscard]] Iterator begin() { return Iterator(handle()); }
    [[nodiscard]] End end() const noexcept { return {}; }

  private:
    [[nodiscard]] static std::optional<EntryView> step(pi_cursor *cursor) {
        pi_entry raw{};
        detail::call(pi_cursor_next, cursor, &raw, sizeof raw);
        return raw.id == nullptr ? std::nullopt : std::optional<EntryView>(detail::entry_view(raw));
    }
};

// --------------------------------------------------------------------------------------------------------------
// Options
// Texts in them are views: they are read during the call they are given to.
// --------------------------------------------------------------------------------------------------------------

/// Told how much of a call is done, and how much it is in all (0 where that is not known), now and then. It runs inside
/// the call, on its thread, and may use the library, for example cancel the context of the call. Once it throws it is
/// told no more, and what it threw comes out when the call has ended, which it does not bring about.
using Progress = std::function<void(std::uint64_t done, std::uint64_t all)>;

/// Oldest or newest first.
enum class Order : std::int64_t { Ascending = PI_ASCENDING, Descending = PI_DESCENDING };

/// What an acknowledged commit survives: power loss, or the end of the process in whatever way.
enum class Durability : std::int64_t { Power = PI_DURABILITY_POWER, Process = PI_DURABILITY_PROCESS };

/// How a repository works.
struct RepositoryOptions {
    Durability durability = Durability::Power;
    /// How long a commit waits for another process's lock on a shared database; 0 is the default, 5 s.
    std::chrono::milliseconds busy_timeout{0};
    /// How many bytes a payload may have; 0 is the default, 256 MiB.
    std::uint64_t max_payload = 0;
};

/// What a listing looks up.
struct ListOptions {
    /// Also name and number of messages, which cost an open of each session.
    bool details = false;
};

/// What a new session is.
struct SessionOptions {
    /// Its id; absent for a new one.
    std::optional<std::string_view> id = std::nullopt;
    /// The session it goes on from.
    std::optional<std::string_view> parent_session_id = std::nullopt;
    /// The working folder it is for.
    std::optional<std::string_view> cwd = std::nullopt;
    /// When it was made, Unix ms, for a session that comes from elsewhere; absent for now.
    std::optional<std::int64_t> created_at = std::nullopt;
    /// The file of an old session it came from, where that has no id here.
    std::optional<std::string_view> legacy_parent_session_path = std::nullopt;
};

/// What a write does to a session that is a file of version 1 to 3.
enum class LegacyPolicy : std::int64_t {
    /// It fails with LegacyReadOnly.
    ReadOnly = PI_LEGACY_POLICY_READ_ONLY,
    /// Opening makes a new session with a new id, and gives that one. The old file stays as it is.
    Copy = PI_LEGACY_POLICY_COPY,
    /// Opening rewrites the file as format 4, with its id, and keeps the old one as NAME.vN.bak.
    Upgrade = PI_LEGACY_POLICY_UPGRADE,
};

/// How a session is opened.
struct OpenOptions {
    /// For reading only, beside whoever writes it. No file is written then, whatever legacy says.
    bool read_only = false;
    LegacyPolicy legacy = LegacyPolicy::ReadOnly;
    /// Where LegacyPolicy::Copy makes the new session; absent for beside the file.
    const Repository *copy_to = nullptr;
    /// Go on although a file of JSON lines is damaged: one of format 4 for reading only, an old one with what can be
    /// read.
    bool salvage = false;
    /// Refuse an old file whose structure is damaged, in place of warning of it.
    bool strict = false;
    /// Which file is meant, as the bytes of its name that SessionView has, where several files of the repository hold a
    /// session of that id. For Repository::open only.
    std::optional<std::string_view> path = std::nullopt;
};

/// How a file is imported.
struct ImportOptions {
    /// The id of the session; absent for the file's.
    std::optional<std::string_view> id = std::nullopt;
    /// Import what can be read of a damaged file.
    bool salvage = false;
    /// Refuse a file whose structure is damaged, at its first damage.
    bool strict = false;
    /// Told of bytes. The file is gone through three times, and each counts.
    Progress progress = nullptr;
};

/// What a fork takes: the path to one entry, as one branch, or every entry and every branch.
enum class ForkScope : std::int64_t { Branch = PI_FORK_BRANCH, Tree = PI_FORK_TREE };

/// Whether the entry of a fork is the new tip, or its parent is.
enum class ForkPosition : std::int64_t { At = PI_FORK_AT, Before = PI_FORK_BEFORE };

/// What a fork is of. With a tree branch, entry_id and position are left as they are.
struct ForkOptions {
    ForkScope scope = ForkScope::Branch;
    /// The branch whose path is taken; absent for main, or with an entry for any path of the tree, which becomes main.
    std::optional<std::string_view> branch = std::nullopt;
    /// The entry on that path; absent for the branch's tip.
    std::optional<std::string_view> entry_id = std::nullopt;
    /// Absent for ForkPosition::At.
    std::optional<ForkPosition> position = std::nullopt;
    /// The id of the new session; absent for a new one.
    std::optional<std::string_view> id = std::nullopt;
    /// The working folder of the new session; absent for the source's.
    std::optional<std::string_view> cwd = std::nullopt;
};

/// How a session is exported.
struct ExportOptions {
    /// Only the path to the tip of this branch; absent for the whole tree, which opens at "main".
    std::optional<std::string_view> branch = std::nullopt;
    /// A file that is there is replaced.
    bool overwrite = false;
};

/// How much of a session a check looks at; what each depth is, is said at the PI_CHECK_ numbers in pisession.h.
enum class CheckDepth : std::int64_t { Brief = PI_CHECK_BRIEF, Quick = PI_CHECK_QUICK, Full = PI_CHECK_FULL };

/// How a session is checked.
struct CheckOptions {
    CheckDepth depth = CheckDepth::Quick;
    /// The file itself is not looked at, since it was, for another session in it.
    bool skip_file = false;
    /// Told of entries.
    Progress progress = nullptr;
};

/// How a session is repaired.
struct RepairOptions {
    /// Where the new session is made; absent to look only.
    Repository *into = nullptr;
    /// The id of the new session; absent for the old one's.
    std::optional<std::string_view> id = std::nullopt;
    /// The id of the session that is meant, in a database that holds several.
    std::optional<std::string_view> session = std::nullopt;
    /// Told of bytes of a file of JSON lines.
    Progress progress = nullptr;
};

/// How sessions are converted.
struct ConvertOptions {
    /// Told of the records of a session.
    Progress progress = nullptr;
};

/// Which elements of a list to read.
struct ListRead {
    Order order = Order::Ascending;
    /// Only elements after (descending: before) this seq.
    std::optional<std::uint64_t> cursor = std::nullopt;
    /// At most so many, which must be positive and is clamped to 10000; absent for 1000.
    std::optional<std::uint64_t> limit = std::nullopt;
};

/// Which entries of a session to find.
struct EntryQuery {
    /// Only entries of this type: "message", "compaction", "branch_summary" or "custom".
    std::optional<std::string_view> type = std::nullopt;
    /// Only custom entries of this type.
    std::optional<std::string_view> custom_type = std::nullopt;
    /// From this seq on, inclusive.
    std::optional<std::uint64_t> from_seq = std::nullopt;
    /// Up to this seq, inclusive.
    std::optional<std::uint64_t> to_seq = std::nullopt;
    /// Only entries beyond this seq: below it descending, above it ascending.
    std::optional<std::uint64_t> cursor = std::nullopt;
    /// At most so many; 0 gives none.
    std::optional<std::uint64_t> limit = std::nullopt;
    Order order = Order::Descending;
};

/// Which entries of a path to give. Applied in this order: stop, filter, cursor, limit.
struct BranchScan {
    /// Stop at the first entry of this type, inclusively.
    std::optional<std::string_view> stop_at_type = std::nullopt;
    /// Stop at this entry, inclusively.
    std::optional<std::string_view> stop_at_id = std::nullopt;
    /// Only entries of this type.
    std::optional<std::string_view> type = std::nullopt;
    /// Only custom entries of this type.
    std::optional<std::string_view> custom_type = std::nullopt;
    /// Only entries beyond this seq: below it newest first, above it oldest first.
    std::optional<std::uint64_t> cursor = std::nullopt;
    /// At most so many; 0 gives none.
    std::optional<std::uint64_t> limit = std::nullopt;
    /// From the start to the root, or from the root to the start.
    Order order = Order::Descending;
};

/// Which rows of the ledger to read.
struct UsageScan {
    /// From this seq on, inclusive.
    std::optional<std::uint64_t> from_seq = std::nullopt;
    /// Up to this seq, inclusive.
    std::optional<std::uint64_t> to_seq = std::nullopt;
    /// At most so many; 0 gives none.
    std::optional<std::uint64_t> limit = std::nullopt;
    Order order = Order::Ascending;
};

namespace detail {
inline void set_text(const char *&data, std::size_t &len, const std::optional<std::string_view> &text) noexcept {
    std::tie(data, len) = arguments_of(text);
}

// The options of C, whose pointers go into those of C++.

[[nodiscard]] inline pi_repository_options options_of(const RepositoryOptions &options) noexcept {
    pi_repository_options raw;
    pi_repository_options_init(&raw, sizeof raw);
    raw.durability = static_cast<std::int64_t>(options.durability);
    raw.busy_timeout_ms =
        static_cast<std::uint64_t>(options.busy_timeout.count() < 0 ? 0 : options.busy_timeout.count());
    raw.max_payload = options.max_payload;
    return raw;
}

[[nodiscard]] inline pi_list_options options_of(const ListOptions &options) noexcept {
    pi_list_options raw;
    pi_list_options_init(&raw, sizeof raw);
    raw.details = options.details ? 1 : 0;
    return raw;
}

[[nodiscard]] inline pi_session_options options_of(const SessionOptions &options) noexcept {
    pi_session_options raw;
    pi_session_options_init(&raw, sizeof raw);
    set_text(raw.id, raw.id_len, options.id);
    set_text(raw.parent_session_id, raw.parent_session_id_len, options.parent_session_id);
    set_text(raw.cwd, raw.cwd_len, options.cwd);
    raw.created_at = pointer(options.created_at);
    set_text(raw.legacy_parent_session_path, raw.legacy_parent_session_path_len, options.legacy_parent_session_path);
    return raw;
}

[[nodiscard]] inline pi_open_options options_of(const OpenOptions &options);
[[nodiscard]] inline pi_repair_options options_of(const RepairOptions &options);

[[nodiscard]] inline pi_import_options options_of(const ImportOptions &options) noexcept {
    pi_import_options raw;
    pi_import_options_init(&raw, sizeof raw);
    set_text(raw.id, raw.id_len, options.id);
    raw.salvage = options.salvage ? 1 : 0;
    raw.strict = options.strict ? 1 : 0;
    return raw;
}

[[nodiscard]] inline pi_fork_options options_of(const ForkOptions &options) noexcept {
    pi_fork_options raw;
    pi_fork_options_init(&raw, sizeof raw);
    raw.scope = static_cast<std::int64_t>(options.scope);
    set_text(raw.branch, raw.branch_len, options.branch);
    set_text(raw.entry_id, raw.entry_id_len, options.entry_id);
    if (options.position) raw.position = static_cast<std::int64_t>(*options.position);
    set_text(raw.id, raw.id_len, options.id);
    set_text(raw.cwd, raw.cwd_len, options.cwd);
    return raw;
}

[[nodiscard]] inline pi_export_options options_of(const ExportOptions &options) noexcept {
    pi_export_options raw;
    pi_export_options_init(&raw, sizeof raw);
    set_text(raw.branch, raw.branch_len, options.branch);
    raw.overwrite = options.overwrite ? 1 : 0;
    return raw;
}

[[nodiscard]] inline pi_check_options options_of(const CheckOptions &options) noexcept {
    pi_check_options raw;
    pi_check_options_init(&raw, sizeof raw);
    raw.depth = static_cast<std::int64_t>(options.depth);
    raw.skip_file = options.skip_file ? 1 : 0;
    return raw;
}

[[nodiscard]] inline pi_convert_options options_of(const ConvertOptions &) noexcept {
    pi_convert_options raw;
    pi_convert_options_init(&raw, sizeof raw);
    return raw;
}

/// Runs call(), which makes one call of C with the options `raw`, and tells `progress` of it. No exception goes through
/// C: it waits here, and goes before one of the call.
template <class Raw, class Call>
std::invoke_result_t<Call &> telling(const Progress &progress, Raw &raw, Call &&call) {
    struct Told {
        const Progress &progress;
        std::exception_ptr thrown;

        void rethrow() {
            if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
        }
    } told{progress, nullptr};
    if (progress) {
        raw.progress = [](std::uint64_t done, std::uint64_t all, void *data) noexcept {
            auto &to = *static_cast<Told *>(data);
            if (to.thrown) return;
            try {
                to.progress(done, all);
            } catch (...) {
                to.thrown = std::current_exception();
            }
        };
        raw.user_data = &told;
    }
    try {
        auto result = call();
        told.rethrow();
        return result;
    } catch (...) {
        told.rethrow();
        throw;
    }
}

[[nodiscard]] inline pi_list_read options_of(const ListRead &read) noexcept {
    pi_list_read raw;
    pi_list_read_init(&raw, sizeof raw);
    raw.order = static_cast<std::int64_t>(read.order);
    raw.cursor = pointer(read.cursor);
    raw.limit = pointer(read.limit);
    return raw;
}

[[nodiscard]] inline pi_entry_query options_of(const EntryQuery &query) noexcept {
    pi_entry_query raw;
    pi_entry_query_init(&raw, sizeof raw);
    set_text(raw.type, raw.type_len, query.type);
    set_text(raw.custom_type, raw.custom_type_len, query.custom_type);
    raw.from_seq = pointer(query.from_seq);
    raw.to_seq = pointer(query.to_seq);
    raw.cursor = pointer(query.cursor);
    raw.limit = pointer(query.limit);
    raw.order = static_cast<std::int64_t>(query.order);
    return raw;
}

[[nodiscard]] inline pi_branch_scan options_of(const BranchScan &scan) noexcept {
    pi_branch_scan raw;
    pi_branch_scan_init(&raw, sizeof raw);
    set_text(raw.stop_at_type, raw.stop_at_type_len, scan.stop_at_type);
    set_text(raw.stop_at_id, raw.stop_at_id_len, scan.stop_at_id);
    set_text(raw.type, raw.type_len, scan.type);
    set_text(raw.custom_type, raw.custom_type_len, scan.custom_type);
    raw.cursor = pointer(scan.cursor);
    raw.limit = pointer(scan.limit);
    raw.order = static_cast<std::int64_t>(scan.order);
    return raw;
}

[[nodiscard]] inline pi_usage_scan options_of(const UsageScan &scan) noexcept {
    pi_usage_scan raw;
    pi_usage_scan_init(&raw, sizeof raw);
    raw.from_seq = pointer(scan.from_seq);
    raw.to_seq = pointer(scan.to_seq);
    raw.limit = pointer(scan.limit);
    raw.order = static_cast<std::int64_t>(scan.order);
    return raw;
}
} // namespace detail

// --------------------------------------------------------------------------------------------------------------
// What a session says of itself
// --------------------------------------------------------------------------------------------------------------

/// What a session is.
struct Metadata {
    /// Unique in its repository.
    std::string id;
    /// When it was made, Unix ms.
    std::int64_t created_at = 0;
    /// Version of the stored form.
    std::uint64_t storage_version = 0;
    /// The working folder it was made for.
    std::optional<std::string> cwd;
    /// The session it was forked or copied from.
    std::optional<std::string> parent_session_id;
    /// The file of an old session it came from, where that has no id here.
    std::optional<std::string> legacy_parent_session_path;
    /// The file it is kept in, as the bytes of its name.
    std::optional<std::string> path;
};

/// Totals of a session: all but the first are sums over its ledger.
struct Stats {
    /// Entries of type "message".
    std::uint64_t message_count = 0;
    double input = 0;
    double output = 0;
    double cache_read = 0;
    double cache_write = 0;
    /// Of these, tokens written for an hour; absent if no row says so.
    std::optional<double> cache_write_1h;
    /// Reasoning tokens; absent if no row says so.
    std::optional<double> reasoning;
    double total_tokens = 0;
    double cost_input = 0;
    double cost_output = 0;
    double cost_cache_read = 0;
    double cost_cache_write = 0;
    double cost_total = 0;
};

/// Bytes of a session's file before and after Session::compact.
struct Compaction {
    std::uint64_t before = 0;
    std::uint64_t after = 0;
};

/// What a commit did.
struct CommitResult {
    /// The first seq of the commit; of an empty commit the next one.
    std::uint64_t first_seq = 0;
    /// The seq of each write, in their order.
    std::vector<std::uint64_t> seqs;
    /// The one timestamp of all entries of the commit, Unix ms.
    std::int64_t timestamp = 0;
    /// The session's totals right after the commit.
    Stats stats;
};

namespace detail {
[[nodiscard]] inline Stats stats_of(const pi_stats &raw) noexcept {
    Stats stats;
    stats.message_count = raw.message_count;
    stats.input = raw.input;
    stats.output = raw.output;
    stats.cache_read = raw.cache_read;
    stats.cache_write = raw.cache_write;
    if (raw.has_cache_write_1h == 1) stats.cache_write_1h = raw.cache_write_1h;
    if (raw.has_reasoning == 1) stats.reasoning = raw.reasoning;
    stats.total_tokens = raw.total_tokens;
    stats.cost_input = raw.cost_input;
    stats.cost_output = raw.cost_output;
    stats.cost_cache_read = raw.cost_cache_read;
    stats.cost_cache_write = raw.cost_cache_write;
    stats.cost_total = raw.cost_total;
    return stats;
}
} // namespace detail

// --------------------------------------------------------------------------------------------------------------
// Old files
// --------------------------------------------------------------------------------------------------------------

/// An old file in brief: views that are valid as long as its Legacy.
struct LegacyInfo {
    /// The version of the file; 1 where it says none.
    std::uint64_t version = 0;
    /// The session id in the file.
    std::optional<std::string_view> session_id;
    /// The usage in the file, summed: a JSON object.
    std::string_view usage;
    /// How many usage objects went into it.
    std::uint64_t usage_rows = 0;
    /// Where the file as it was is kept, if the call upgraded it; as the bytes of its name.
    std::optional<std::string_view> backup;
};

/// One thing that reading an old file found: views that are valid as long as the Legacy or Repair they are from.
struct LegacyWarning {
    /// What it is about, for example "bad_line".
    std::string_view kind;
    /// What was found, in plain words.
    std::string_view message;
    /// The line, from 1.
    std::uint64_t line = 0;
    /// Which of the values on the line, from 0.
    std::uint64_t value = 0;
    /// Where the line starts in the file.
    std::uint64_t offset = 0;
    /// How many bytes the line has, without its end.
    std::uint64_t length = 0;
    /// The file's structure is damaged there, and strict reading refuses it.
    bool is_damage = false;
};

/// An id of an entry in an old file, and its id here: views that are valid as long as its Legacy.
struct LegacyId {
    std::string_view old_id;
    std::string_view new_id;
};

namespace detail {
template <>
struct SetOf<LegacyWarning> : SetFunctions<pi_legacy, pi_legacy_warning, pi_legacy_warnings_count,
                                           pi_legacy_warnings_get, pi_legacy_free> {
    [[nodiscard]] static LegacyWarning view(const pi_legacy_warning &raw) noexcept {
        return {detail::view(raw.kind, raw.kind_len), detail::view(raw.message, raw.message_len), raw.line, raw.value,
                raw.offset, raw.length, raw.is_damage == 1};
    }
};

template <>
struct SetOf<LegacyId>
    : SetFunctions<pi_legacy, pi_legacy_id, pi_legacy_ids_count, pi_legacy_ids_get, pi_legacy_free> {
    [[nodiscard]] static LegacyId view(const pi_legacy_id &raw) noexcept {
        return {detail::view(raw.old_id, raw.old_id_len), detail::view(raw.new_id, raw.new_id_len)};
    }
};
} // namespace detail

/// What reading a session file of version 1 to 3 found: its warnings, its usage, the map of its ids.
class Legacy : public detail::Handle<pi_legacy, pi_legacy_free> {
  public:
    /// Takes over an object of C.
    explicit Legacy(pi_legacy *legacy) noexcept : Handle(legacy) {}

    /// The file in brief. All zero when this was moved from.
    [[nodiscard]] LegacyInfo info() const noexcept {
        pi_legacy_info raw{};
        static_cast<void>(pi_legacy_get(handle(), &raw, sizeof raw)); // fails for NULL only
        return {raw.version, detail::optional_view(raw.session_id, raw.session_id_len),
                detail::view(raw.usage, raw.usage_len), raw.usage_rows,
                detail::optional_view(raw.backup, raw.backup_len)};
    }
    /// By line.
    [[nodiscard]] Items<LegacyWarning> warnings() const noexcept {
        return Items<LegacyWarning>(detail::SetSource<LegacyWarning>{handle()});
    }
    /// In stored order, without entries that have no id in the file.
    [[nodiscard]] Items<LegacyId> ids() const noexcept {
        return Items<LegacyId>(detail::SetSource<LegacyId>{handle()});
    }
};

// --------------------------------------------------------------------------------------------------------------
// Repairs
// --------------------------------------------------------------------------------------------------------------

/// A repair in brief: views that are valid as long as its Repair.
struct RepairInfo {
    /// The id of the damaged session.
    std::string_view source_id;
    /// The id of the new session; absent if there was only a look.
    std::optional<std::string_view> id;
    /// The file of the new session, as the bytes of its name.
    std::optional<std::string_view> path;
    /// There was nothing to repair.
    bool is_sound = false;
    /// Entries that were kept.
    std::uint64_t entries = 0;
    /// Of these, messages.
    std::uint64_t messages = 0;
    /// Values, the tips of branches included.
    std::uint64_t values = 0;
    /// Elements of lists.
    std::uint64_t elements = 0;
    /// Rows of the ledger.
    std::uint64_t usage = 0;
};

namespace detail {
/// The warnings of a repair.
struct RepairWarningSource {
    const pi_repair *repair = nullptr;

    [[nodiscard]] std::size_t size() const noexcept { return pi_repair_warnings_count(repair); }
    [[nodiscard]] LegacyWarning at(std::size_t index) const {
        pi_legacy_warning raw{};
        if (pi_repair_warnings_get(repair, index, &raw, sizeof raw) != PI_OK) beyond_the_end(index, size());
        return SetOf<LegacyWarning>::view(raw);
    }
};
} // namespace detail

/// What a repair did, or would do.
class Repair : public detail::Handle<pi_repair, pi_repair_free> {
  public:
    /// Takes over an object of C.
    explicit Repair(pi_repair *repair) noexcept : Handle(repair) {}

    /// The repair in brief. All zero when this was moved from.
    [[nodiscard]] RepairInfo info() const noexcept {
        pi_repair_info raw{};
        static_cast<void>(pi_repair_get(handle(), &raw, sizeof raw)); // fails for NULL only
        return {detail::view(raw.source_id, raw.source_id_len),
                detail::optional_view(raw.id, raw.id_len),
                detail::optional_view(raw.path, raw.path_len),
                raw.is_sound == 1,
                raw.entries,
                raw.messages,
                raw.values,
                raw.elements,
                raw.usage};
    }
    /// What was damaged, and what was changed or left out therefore.
    [[nodiscard]] Items<FindingView> findings() const noexcept {
        return Items<FindingView>(detail::SetSource<FindingView>{pi_repair_findings(handle())});
    }
    /// What the reader of a file of version 1 to 3 warned of, by line.
    [[nodiscard]] Items<LegacyWarning, detail::RepairWarningSource> warnings() const noexcept {
        return Items<LegacyWarning, detail::RepairWarningSource>({handle()});
    }
};

// --------------------------------------------------------------------------------------------------------------
// Batches
// --------------------------------------------------------------------------------------------------------------

/// The writes of one commit, in their order, to be applied all or nothing by Mutation::commit. What is wrong with a
/// write by itself is said when it is added, and then it is not added. Used by one thread at a time.
class Writes : public detail::Handle<pi_writes, pi_writes_free> {
  public:
    /// An empty batch.
    Writes() : Handle(detail::made<pi_writes>(pi_writes_new)) {}

    /// How many writes were added.
    [[nodiscard]] std::size_t size() const noexcept { return pi_writes_count(handle()); }

    /// Adds an entry from its JSON object: id, parentId, type, customType, and the type's payload fields.
    Writes &insert_entry(std::string_view entry) {
        detail::call(pi_writes_insert_entry, handle(), entry);
        return *this;
    }

    /// Adds a message, a JSON object, under an entry, or as a root. The tip of a branch does not move with it: set
    /// the value ("pi.branch.tip", branch name) in the same commit.
    Writes &insert_message(std::string_view id, std::optional<std::string_view> parent_id, std::string_view message) {
        detail::call(pi_writes_insert_message, handle(), id, parent_id, message);
        return *this;
    }

    /// Adds an entry of the application's own type, with JSON data or without, under an entry, or as a root.
    Writes &insert_custom_entry(std::string_view id, std::optional<std::string_view> parent_id,
                                std::string_view custom_type, std::optional<std::string_view> data = std::nullopt) {
        detail::call(pi_writes_insert_custom_entry, handle(), id, parent_id, custom_type, data);
        return *this;
    }

    /// Adds a row of the ledger from its JSON object: id, usage, adjustment, entryId, details, and others.
    Writes &insert_usage(std::string_view usage) {
        detail::call(pi_writes_insert_usage, handle(), usage);
        return *this;
    }

    /// Adds the setting or replacing of a value.
    Writes &set_value(std::string_view name_space, std::string_view key, std::string_view value) {
        detail::call(pi_writes_set_value, handle(), name_space, key, value);
        return *this;
    }

    /// Adds the deletion of a value, which may be absent.
    Writes &delete_value(std::string_view name_space, std::string_view key) {
        detail::call(pi_writes_delete_value, handle(), name_space, key);
        return *this;
    }

    /// Adds the appending of an element to a list.
    Writes &append_list(std::string_view name_space, std::string_view key, std::string_view element) {
        detail::call(pi_writes_append_list, handle(), name_space, key, element);
        return *this;
    }

    /// Adds the deletion of a whole list, which may be absent.
    Writes &delete_list(std::string_view name_space, std::string_view key) {
        detail::call(pi_writes_delete_list, handle(), name_space, key);
        return *this;
    }
};

/// Entries to be appended to a branch in one commit by Branch::append_many, which puts each under the one before.
/// Used by one thread at a time.
class Nodes : public detail::Handle<pi_nodes, pi_nodes_free> {
  public:
    /// An empty batch.
    Nodes() : Handle(detail::made<pi_nodes>(pi_nodes_new)) {}

    /// How many nodes were added.
    [[nodiscard]] std::size_t size() const noexcept { return pi_nodes_count(handle()); }

    /// Adds a message, a JSON object.
    Nodes &add_message(std::string_view message) {
        detail::call(pi_nodes_add_message, handle(), message);
        return *this;
    }

    /// Adds an entry of the application's own type, with JSON data or without.
    Nodes &add_custom_entry(std::string_view custom_type, std::optional<std::string_view> data = std::nullopt) {
        detail::call(pi_nodes_add_custom_entry, handle(), custom_type, data);
        return *this;
    }
};

// --------------------------------------------------------------------------------------------------------------
// SQL
// --------------------------------------------------------------------------------------------------------------

/// Bytes of SQL. A view.
struct Blob {
    std::string_view bytes;
};

/// A cell of a result, or a parameter of a query. A text or blob is a view: as long as its Rows; in a parameter, until
/// the query returns.
class Cell {
  public:
    /// NULL of SQL.
    Cell() = default;
    Cell(std::nullptr_t) noexcept {}
    Cell(double real) noexcept : value_(real) {}
    Cell(std::string_view text) noexcept : value_(text) {}
    Cell(const std::string &text) noexcept : value_(std::string_view(text)) {}
    Cell(const char *text) noexcept : value_(std::string_view(text)) {}
    Cell(Blob blob) noexcept : value_(blob) {}
    /// std::out_of_range above what an integer of SQL, of 64 bits with a sign, holds.
    template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
    Cell(Integer integer) : value_(static_cast<std::int64_t>(integer)) {
        if constexpr (std::is_unsigned_v<Integer> && sizeof(Integer) == sizeof(std::int64_t)) {
            if (integer > static_cast<Integer>(std::numeric_limits<std::int64_t>::max()))
                throw std::out_of_range(std::to_string(integer) + " is no integer of SQL");
        }
    }

    [[nodiscard]] bool is_null() const noexcept { return std::holds_alternative<std::monostate>(value_); }
    [[nodiscard]] bool is_integer() const noexcept { return std::holds_alternative<std::int64_t>(value_); }
    [[nodiscard]] bool is_real() const noexcept { return std::holds_alternative<double>(value_); }
    [[nodiscard]] bool is_text() const noexcept { return std::holds_alternative<std::string_view>(value_); }
    [[nodiscard]] bool is_blob() const noexcept { return std::holds_alternative<Blob>(value_); }

    /// Each of these throws std::bad_variant_access if the cell is of another type.
    [[nodiscard]] std::int64_t integer() const { return std::get<std::int64_t>(value_); }
    [[nodiscard]] double real() const { return std::get<double>(value_); }
    [[nodiscard]] std::string_view text() const { return std::get<std::string_view>(value_); }
    [[nodiscard]] std::string_view blob() const { return std::get<Blob>(value_).bytes; }

  private:
    std::variant<std::monostate, std::int64_t, double, std::string_view, Blob> value_;
};

namespace detail {
[[nodiscard]] inline Cell cell_of(const pi_cell &raw) {
    switch (raw.type) {
    case PI_CELL_INTEGER: return raw.integer;
    case PI_CELL_REAL: return raw.real;
    case PI_CELL_TEXT: return view(raw.data, raw.data_len);
    case PI_CELL_BLOB: return Blob{view(raw.data, raw.data_len)};
    default: return nullptr;
    }
}

[[nodiscard]] inline pi_cell cell_of(const Cell &cell) {
    pi_cell raw{};
    if (cell.is_integer()) {
        raw.type = PI_CELL_INTEGER;
        raw.integer = cell.integer();
    } else if (cell.is_real()) {
        raw.type = PI_CELL_REAL;
        raw.real = cell.real();
    } else if (!cell.is_null()) {
        raw.type = cell.is_text() ? PI_CELL_TEXT : PI_CELL_BLOB;
        std::tie(raw.data, raw.data_len) = arguments_of(cell.is_text() ? cell.text() : cell.blob());
    }
    return raw;
}

/// The cells of one row.
struct RowSource {
    const pi_rows *rows = nullptr;
    std::size_t row = 0;

    [[nodiscard]] std::size_t size() const noexcept { return pi_rows_column_count(rows); }
    [[nodiscard]] Cell at(std::size_t column) const {
        pi_cell raw{};
        if (pi_rows_get(rows, row, column, &raw, sizeof raw) != PI_OK) beyond_the_end(column, size());
        return cell_of(raw);
    }
};
} // namespace detail

/// One row of a result: a random-access range of cells. Valid as long as its Rows.
class Row : public detail::Range<Row, detail::RowSource, Cell> {
  public:
    Row(const pi_rows *rows, std::size_t row) noexcept : source_{rows, row} {}

  private:
    friend detail::Range<Row, detail::RowSource, Cell>;
    [[nodiscard]] detail::RowSource source() const noexcept { return source_; }
    detail::RowSource source_;
};

namespace detail {
/// The rows of a result.
struct RowsSource {
    const pi_rows *rows = nullptr;

    [[nodiscard]] std::size_t size() const noexcept { return pi_rows_count(rows); }
    [[nodiscard]] Row at(std::size_t row) const {
        if (row >= size()) beyond_the_end(row, size());
        return {rows, row};
    }
};
} // namespace detail

/// The result of a query: a sized random-access range of rows.
class Rows : public detail::Handle<pi_rows, pi_rows_free>, public detail::Range<Rows, detail::RowsSource, Row> {
  public:
    /// Takes over a result of C.
    explicit Rows(pi_rows *rows) noexcept : Handle(rows) {}

    [[nodiscard]] std::size_t column_count() const noexcept { return pi_rows_column_count(handle()); }
    /// std::out_of_range beyond the last column.
    [[nodiscard]] std::string_view column_name(std::size_t column) const {
        const char *name = pi_rows_column_name(handle(), column);
        if (name == nullptr) detail::beyond_the_end(column, column_count());
        return name;
    }

  private:
    friend detail::Range<Rows, detail::RowsSource, Row>;
    [[nodiscard]] detail::RowsSource source() const noexcept { return {handle()}; }
};

// --------------------------------------------------------------------------------------------------------------
// Mutations
// --------------------------------------------------------------------------------------------------------------

namespace detail {
/// The ids of a range of texts, as C takes them.
template <class Ids>
[[nodiscard]] std::pair<std::vector<const char *>, std::vector<std::size_t>> ids_of(const Ids &ids) {
    std::pair<std::vector<const char *>, std::vector<std::size_t>> all;
    for (const auto &id : ids) {
        const auto [data, len] = arguments_of(std::string_view(id));
        all.first.push_back(data);
        all.second.push_back(len);
    }
    return all;
}

/// The reads that a session and a mutation share, over the functions of each.
template <auto GetEntries, class T, class Ids>
[[nodiscard]] Entries get_entries(const T *handle, const Ids &ids, const Context &ctx) {
    const auto [data, lens] = ids_of(ids);
    return Entries(made_by<pi_entries>(GetEntries, ctx, handle, data.data(), lens.data(), data.size()));
}

template <class Function, class T>
[[nodiscard]] Stats stats_by(Function function, const T *handle, const Context &ctx) {
    pi_stats raw{};
    call(function, handle, &raw, sizeof raw, ctx);
    return stats_of(raw);
}

template <class Function, class T>
[[nodiscard]] std::optional<StoredValue> value_by(Function function, const T *handle, std::string_view name_space,
                                                  std::string_view key, const Context &ctx) {
    pi_buf *raw = nullptr;
    std::uint64_t seq = 0;
    call(function, handle, name_space, key, &raw, &seq, ctx);
    std::optional<std::string> value = optional_text(raw);
    return value ? std::optional<StoredValue>(StoredValue{*std::move(value), seq}) : std::nullopt;
}

/// The text of a value that may be absent.
[[nodiscard]] inline std::optional<std::string> text_of(std::optional<StoredValue> value) {
    return value ? std::optional<std::string>(std::move(value->value)) : std::nullopt;
}
} // namespace detail

/// One turn of a session's mutation line: reads, at most one commit, end. Ordinary code uses Session::mutate.
/// Destroying it ends it. Inside a mutation never run a model request, a tool, a timer, another writer of the session,
/// or unbounded work. Its reads see what is committed, not what waits in a Writes.
class Mutation : public detail::Handle<pi_mutation, pi_mutation_free> {
  public:
    /// Takes over a mutation of C.
    explicit Mutation(pi_mutation *mutation) noexcept : Handle(mutation) {}

    /// Those of the ids that exist, in the order asked. The ids are any range of texts.
    template <class Ids = std::initializer_list<std::string_view>>
    [[nodiscard]] Entries get_entries(const Ids &ids, const Context &ctx = Context::background()) const {
        return detail::get_entries<pi_mutation_get_entries>(handle(), ids, ctx);
    }

    /// The entries on the path from the entry start to its root. UnknownEntry if there is none.
    [[nodiscard]] Entries scan_branch(std::string_view start, const BranchScan &scan = {},
                                      const Context &ctx = Context::background()) const {
        const pi_branch_scan raw = detail::options_of(scan);
        return Entries(detail::made_by<pi_entries>(pi_mutation_scan_branch, ctx, handle(), start, &raw));
    }

    /// Where the entries of scan_branch stand, without their payloads.
    [[nodiscard]] Entries scan_branch_structure(std::string_view start, const BranchScan &scan = {},
                                                const Context &ctx = Context::background()) const {
        const pi_branch_scan raw = detail::options_of(scan);
        return Entries(detail::made_by<pi_entries>(pi_mutation_scan_branch_structure, ctx, handle(), start, &raw));
    }

    /// The totals of the session.
    [[nodiscard]] Stats stats(const Context &ctx = Context::background()) const {
        return detail::stats_by(pi_mutation_stats, handle(), ctx);
    }

    /// The JSON at an address, if there is a value.
    [[nodiscard]] std::optional<std::string> get_value(std::string_view name_space, std::string_view key,
                                                       const Context &ctx = Context::background()) const {
        return detail::text_of(get_stored_value(name_space, key, ctx));
    }

    /// The JSON at an address and when it was set, if there is a value.
    [[nodiscard]] std::optional<StoredValue> get_stored_value(std::string_view name_space, std::string_view key,
                                                              const Context &ctx = Context::background()) const {
        return detail::value_by(pi_mutation_get_value, handle(), name_space, key, ctx);
    }

    /// The values of a namespace whose key starts with key_prefix, keys ascending.
    [[nodiscard]] Values scan_values(std::string_view name_space, std::string_view key_prefix = {},
                                     const Context &ctx = Context::background()) const {
        return Values(
            detail::made_by<pi_values>(pi_mutation_scan_values, ctx, handle(), name_space, key_prefix));
    }

    /// Elements of a list; none when it is absent.
    [[nodiscard]] Elements read_list(std::string_view name_space, std::string_view key, const ListRead &read = {},
                                     const Context &ctx = Context::background()) const {
        const pi_list_read raw = detail::options_of(read);
        return Elements(
            detail::made_by<pi_elements>(pi_mutation_read_list, ctx, handle(), name_space, key, &raw));
    }

    /// Applies writes, all or nothing; returns when the commit is durable. Legal once: CommitAttempted the second time,
    /// also after a failed first. The line stays held until the mutation ends. After a failure nothing is written.
    CommitResult commit(const Writes &writes, const Context &ctx = Context::background()) {
        const detail::Owned<pi_commit_result, pi_commit_result_free> raw(
            detail::made_by<pi_commit_result>(pi_mutation_commit, ctx, handle(), writes.handle()));
        pi_stats stats{};
        static_cast<void>(pi_commit_result_stats(raw.get(), &stats, sizeof stats)); // fails for NULL only
        const std::uint64_t *seqs = pi_commit_result_seqs(raw.get());
        return {pi_commit_result_first_seq(raw.get()),
                std::vector<std::uint64_t>(seqs, seqs + pi_commit_result_count(raw.get())),
                pi_commit_result_timestamp(raw.get()), detail::stats_of(stats)};
    }

    /// Ends the mutation and releases the line. May be called again, and without a commit before.
    void end() { detail::call(pi_mutation_end, handle()); }
};

// --------------------------------------------------------------------------------------------------------------
// Branches
// --------------------------------------------------------------------------------------------------------------

/// One named path through the entry tree: its tip, queries along it, direct appends. It is a name and holds no state.
/// UnknownBranch from every call if the branch was deleted.
class Branch : public detail::Handle<pi_branch, pi_branch_free> {
  public:
    /// Takes over a branch of C.
    explicit Branch(pi_branch *branch) noexcept : Handle(branch) {}

    /// Its name, valid as long as this object. Empty when it was moved from.
    [[nodiscard]] std::string_view name() const noexcept {
        const char *name = pi_branch_name(handle());
        return name == nullptr ? std::string_view() : std::string_view(name);
    }

    /// The id of its tip; absent for an empty branch.
    [[nodiscard]] std::optional<std::string> tip_id(const Context &ctx = Context::background()) const {
        return detail::optional_text(detail::made_by<pi_buf>(pi_branch_tip_id, ctx, handle()));
    }

    /// Entries on its path, from its tip, newest first unless asked otherwise.
    [[nodiscard]] Entries find_entries(const BranchScan &scan = {}, const Context &ctx = Context::background()) const {
        const pi_branch_scan raw = detail::options_of(scan);
        return Entries(detail::made_by<pi_entries>(pi_branch_find_entries, ctx, handle(), &raw));
    }

    /// The entries of find_entries one by one, along the path of the tip it has now.
    [[nodiscard]] EntryCursor entries(const BranchScan &scan = {}, const Context &ctx = Context::background()) const {
        const pi_branch_scan raw = detail::options_of(scan);
        return EntryCursor(detail::made_by<pi_cursor>(pi_branch_entries, ctx, handle(), &raw));
    }

    /// Appends a message, a JSON object, under the tip and moves the tip, in one commit. The new entry's id. Waits for
    /// its turn on the mutation line, as the other appends.
    std::string append_message(std::string_view message, const Context &ctx = Context::background()) {
        return detail::text(detail::made_by<pi_buf>(pi_branch_append_message, ctx, handle(), message));
    }

    /// Appends an entry of the application's own type, with JSON data or without. The new entry's id.
    std::string append_custom_entry(std::string_view custom_type, std::optional<std::string_view> data = std::nullopt,
                                    const Context &ctx = Context::background()) {
        return detail::text(
            detail::made_by<pi_buf>(pi_branch_append_custom_entry, ctx, handle(), custom_type, data));
    }

    /// Appends the nodes, each under the one before, in one commit. Their ids. All or none.
    Ids append_many(const Nodes &nodes, const Context &ctx = Context::background()) {
        return Ids(detail::made_by<pi_ids>(pi_branch_append_many, ctx, handle(), nodes.handle()));
    }
};

// --------------------------------------------------------------------------------------------------------------
// Sessions
// --------------------------------------------------------------------------------------------------------------

/// An open session: global durable data (values, lists, entries, usage, name, labels) and one mutation line. Reads see
/// the newest applied commit and never wait for a mutation. What writes waits for its turn on the line.
///
/// close() reports what closing met; a session that is only destroyed is released as a crash would, without loss, once
/// its branches, mutations and cursors are gone too.
class Session : public detail::Handle<pi_session, pi_session_free> {
  public:
    /// Takes over a session of C.
    explicit Session(pi_session *session) noexcept : Handle(session) {}

    /// Refuses new mutations and reads, waits for what has begun to end, closes the storage. Afterwards everything of
    /// it fails with Closed. May be called again. NestedMutation from inside a mutation.
    void close(const Context &ctx = Context::background()) { detail::call(pi_session_close, handle(), ctx); }

    /// What it says of itself.
    [[nodiscard]] Metadata metadata() const {
        pi_metadata raw{};
        detail::call(pi_session_metadata, handle(), &raw, sizeof raw);
        Metadata metadata;
        metadata.id = std::string(detail::view(raw.id, raw.id_len));
        metadata.created_at = raw.created_at;
        metadata.storage_version = raw.storage_version;
        metadata.cwd = detail::optional_copy(raw.cwd, raw.cwd_len);
        metadata.parent_session_id = detail::optional_copy(raw.parent_session_id, raw.parent_session_id_len);
        metadata.legacy_parent_session_path =
            detail::optional_copy(raw.legacy_parent_session_path, raw.legacy_parent_session_path_len);
        metadata.path = detail::optional_copy(raw.path, raw.path_len);
        return metadata;
    }

    /// What reading the file found from which this session was opened, copied or upgraded; nothing for any other one.
    [[nodiscard]] std::optional<Legacy> legacy() const {
        auto *legacy = detail::made<pi_legacy>(pi_session_legacy, handle());
        return legacy == nullptr ? std::nullopt : std::optional<Legacy>(Legacy(legacy));
    }

    /// A new id for an entry or a usage row.
    [[nodiscard]] std::string new_id() const { return detail::text(detail::made<pi_buf>(pi_session_new_id, handle())); }

    /// Its totals.
    [[nodiscard]] Stats stats(const Context &ctx = Context::background()) const {
        return detail::stats_by(pi_session_stats, handle(), ctx);
    }

    /// The seq that the next commit starts at.
    [[nodiscard]] std::uint64_t next_seq(const Context &ctx = Context::background()) const {
        std::uint64_t seq = 0;
        detail::call(pi_session_next_seq, handle(), &seq, ctx);
        return seq;
    }

    /// Everything it holds as one JSON object, payloads as stored: sessions that hold the same give the same bytes.
    /// Read in pages: to dump a session that others write to, begin a mutation around it.
    [[nodiscard]] std::string dump(const Context &ctx = Context::background()) const {
        return detail::text(detail::made_by<pi_buf>(pi_session_dump, ctx, handle()));
    }

    /// Copies it, as it is now, into a new SQLite file of its own, while it stays in use. Unsupported where it is not
    /// kept in SQLite, SessionExists if there is a file.
    void backup_to(const std::filesystem::path &path, const Context &ctx = Context::background()) const {
        detail::call(pi_session_backup, handle(), path, ctx);
    }

    /// Rewrites its file of JSON lines with what is alive. Unsupported where it is kept otherwise.
    Compaction compact(const Context &ctx = Context::background()) {
        pi_compaction raw{};
        detail::call(pi_session_compact, handle(), &raw, sizeof raw, ctx);
        return {raw.before, raw.after};
    }

    /// Writes it as a session file of version 3; the file appears whole or not at all. A JSON object that says what was
    /// written, and in losses what version 3 cannot hold. SessionExists where a file is that may not be replaced.
    std::string export_file(const std::filesystem::path &path, const ExportOptions &options = {},
                            const Context &ctx = Context::background()) const {
        const pi_export_options raw = detail::options_of(options);
        return detail::text(detail::made_by<pi_buf>(pi_session_export, ctx, handle(), path, &raw));
    }

    /// Copies it into another repository as it is, with its ids, seqs and timestamps. The copy appears whole or not at
    /// all, and is not open. False if it was there already and holds the same. Throws SessionExistsError if a session
    /// of that id is something else.
    bool convert(Repository &into, const ConvertOptions &options = {},
                 const Context &ctx = Context::background()) const;

    /// Looks it over, while it stays in use: what is wrong with it, none for a sound one. Nothing is written. What
    /// cannot be read is a finding, too. Closed; throws CancelledError, DeadlineExceededError.
    [[nodiscard]] Findings check(const CheckOptions &options = {}, const Context &ctx = Context::background()) const {
        pi_check_options raw = detail::options_of(options);
        return detail::telling(options.progress, raw, [&] {
            return Findings(detail::made_by<pi_findings>(pi_session_check, ctx, handle(), &raw));
        });
    }

    /// What reading went past in a file of JSON lines that was opened with salvage: each a "damaged_line" with its
    /// place. None for any other session.
    [[nodiscard]] Findings gaps() const {
        return Findings(detail::made<pi_findings>(pi_session_gaps, handle()));
    }

    /// Its name, if it has one.
    [[nodiscard]] std::optional<std::string> name(const Context &ctx = Context::background()) const {
        return detail::optional_text(detail::made_by<pi_buf>(pi_session_name, ctx, handle()));
    }

    /// Sets its name, or deletes it.
    void set_name(std::optional<std::string_view> name, const Context &ctx = Context::background()) {
        detail::call(pi_session_set_name, handle(), name, ctx);
    }

    /// The label of an entry, if it has one.
    [[nodiscard]] std::optional<std::string> get_label(std::string_view entry_id,
                                                       const Context &ctx = Context::background()) const {
        return detail::optional_text(detail::made_by<pi_buf>(pi_session_get_label, ctx, handle(), entry_id));
    }

    /// Labels an entry, which need not exist, or deletes its label.
    void set_label(std::string_view entry_id, std::optional<std::string_view> label,
                   const Context &ctx = Context::background()) {
        detail::call(pi_session_set_label, handle(), entry_id, label, ctx);
    }

    // Values and lists

    /// The JSON at an address, if there is a value.
    [[nodiscard]] std::optional<std::string> get_value(std::string_view name_space, std::string_view key,
                                                       const Context &ctx = Context::background()) const {
        return detail::text_of(get_stored_value(name_space, key, ctx));
    }

    /// The JSON at an address and when it was set, if there is a value.
    [[nodiscard]] std::optional<StoredValue> get_stored_value(std::string_view name_space, std::string_view key,
                                                              const Context &ctx = Context::background()) const {
        return detail::value_by(pi_session_get_value, handle(), name_space, key, ctx);
    }

    /// The values of a namespace whose key starts with key_prefix, keys ascending.
    [[nodiscard]] Values scan_values(std::string_view name_space, std::string_view key_prefix = {},
                                     const Context &ctx = Context::background()) const {
        return Values(detail::made_by<pi_values>(pi_session_scan_values, ctx, handle(), name_space, key_prefix));
    }

    /// Elements of a list; none when it is absent.
    [[nodiscard]] Elements read_list(std::string_view name_space, std::string_view key, const ListRead &read = {},
                                     const Context &ctx = Context::background()) const {
        const pi_list_read raw = detail::options_of(read);
        return Elements(detail::made_by<pi_elements>(pi_session_read_list, ctx, handle(), name_space, key, &raw));
    }

    /// Sets or replaces a value, a JSON text.
    void set_value(std::string_view name_space, std::string_view key, std::string_view value,
                   const Context &ctx = Context::background()) {
        detail::call(pi_session_set_value, handle(), name_space, key, value, ctx);
    }

    /// Deletes a value; fine when it is absent.
    void delete_value(std::string_view name_space, std::string_view key, const Context &ctx = Context::background()) {
        detail::call(pi_session_delete_value, handle(), name_space, key, ctx);
    }

    /// Appends an element, a JSON text, to a list.
    void append_list(std::string_view name_space, std::string_view key, std::string_view element,
                     const Context &ctx = Context::background()) {
        detail::call(pi_session_append_list, handle(), name_space, key, element, ctx);
    }

    /// Deletes a whole list; fine when it is absent.
    void delete_list(std::string_view name_space, std::string_view key, const Context &ctx = Context::background()) {
        detail::call(pi_session_delete_list, handle(), name_space, key, ctx);
    }

    /// The addresses that hold a value, ascending by namespace and key: those behind `after`, or from the first, at
    /// most limit of them.
    [[nodiscard]] Addresses value_addresses(const std::optional<AddressView> &after = std::nullopt,
                                            std::size_t limit = 1000,
                                            const Context &ctx = Context::background()) const {
        return addresses_by(pi_session_value_addresses, after, limit, ctx);
    }

    /// The addresses that hold a list, as value_addresses.
    [[nodiscard]] Addresses list_addresses(const std::optional<AddressView> &after = std::nullopt,
                                           std::size_t limit = 1000,
                                           const Context &ctx = Context::background()) const {
        return addresses_by(pi_session_list_addresses, after, limit, ctx);
    }

    // Entries

    /// The entry of that id, if there is one.
    [[nodiscard]] std::optional<Entry> get_entry(std::string_view id,
                                                 const Context &ctx = Context::background()) const {
        const Entries found(detail::made_by<pi_entries>(pi_session_get_entry, ctx, handle(), id));
        return found.empty() ? std::nullopt : std::optional<Entry>(Entry(found.front()));
    }

    /// Those of the ids that exist, in the order asked. The ids are any range of texts.
    template <class Ids = std::initializer_list<std::string_view>>
    [[nodiscard]] Entries get_entries(const Ids &ids, const Context &ctx = Context::background()) const {
        return detail::get_entries<pi_session_get_entries>(handle(), ids, ctx);
    }

    /// Entries of the whole session, newest first unless asked otherwise.
    [[nodiscard]] Entries find_entries(const EntryQuery &query = {}, const Context &ctx = Context::background()) const {
        const pi_entry_query raw = detail::options_of(query);
        return Entries(detail::made_by<pi_entries>(pi_session_find_entries, ctx, handle(), &raw));
    }

    /// The entries of find_entries one by one, read in pages.
    [[nodiscard]] EntryCursor entries(const EntryQuery &query = {}, const Context &ctx = Context::background()) const {
        const pi_entry_query raw = detail::options_of(query);
        return EntryCursor(detail::made_by<pi_cursor>(pi_session_entries, ctx, handle(), &raw));
    }

    /// The entries on the path from the entry start to its root. UnknownEntry if there is none.
    [[nodiscard]] Entries scan_branch(std::string_view start, const BranchScan &scan = {},
                                      const Context &ctx = Context::background()) const {
        const pi_branch_scan raw = detail::options_of(scan);
        return Entries(detail::made_by<pi_entries>(pi_session_scan_branch, ctx, handle(), start, &raw));
    }

    /// Where the entries of scan_branch stand, without their payloads.
    [[nodiscard]] Entries scan_branch_structure(std::string_view start, const BranchScan &scan = {},
                                                const Context &ctx = Context::background()) const {
        const pi_branch_scan raw = detail::options_of(scan);
        return Entries(detail::made_by<pi_entries>(pi_session_scan_branch_structure, ctx, handle(), start, &raw));
    }

    // Branches

    /// Makes a branch at an entry, or an empty one. BranchExists, UnknownTarget.
    Branch create_branch(std::string_view name, std::optional<std::string_view> at = std::nullopt,
                         const Context &ctx = Context::background()) {
        return Branch(detail::made_by<pi_branch>(pi_branch_create, ctx, handle(), name, at));
    }

    /// The branch of that name, if there is one.
    [[nodiscard]] std::optional<Branch> branch(std::string_view name,
                                               const Context &ctx = Context::background()) const {
        pi_branch *branch = detail::made_by<pi_branch>(pi_branch_get, ctx, handle(), name);
        return branch == nullptr ? std::nullopt : std::optional<Branch>(Branch(branch));
    }

    /// All branches with their tips, names ascending.
    [[nodiscard]] Branches branches(const Context &ctx = Context::background()) const {
        return Branches(detail::made_by<pi_branches>(pi_session_branches, ctx, handle()));
    }

    // Usage and SQL

    /// Rows of the ledger, oldest first unless asked otherwise.
    [[nodiscard]] UsageRows scan_usage(const UsageScan &scan = {}, const Context &ctx = Context::background()) const {
        const pi_usage_scan raw = detail::options_of(scan);
        return UsageRows(detail::made_by<pi_usage_rows>(pi_session_scan_usage, ctx, handle(), &raw));
    }

    /// Runs one statement that reads the session's views; ?1 stands for the first parameter. Unsupported where the
    /// session is not kept in SQLite, InvalidArgument for SQL that is wrong or would write.
    [[nodiscard]] Rows query(std::string_view sql, const std::vector<Cell> &parameters = {},
                             const Context &ctx = Context::background()) const {
        std::vector<pi_cell> raw;
        raw.reserve(parameters.size());
        for (const Cell &parameter : parameters) raw.push_back(detail::cell_of(parameter));
        return Rows(detail::made_by<pi_rows>(pi_session_query, ctx, handle(), sql,
                                             static_cast<const pi_cell *>(raw.data()), raw.size()));
    }

    // Mutations

    /// Waits for its turn on the mutation line and begins a mutation. NestedMutation if this thread holds the line.
    [[nodiscard]] Mutation begin_mutation(const Context &ctx = Context::background()) {
        return Mutation(detail::made_by<pi_mutation>(pi_mutation_begin, ctx, handle()));
    }

    /// Runs function(Mutation &) on the mutation line, on this thread: begin, function, end, whatever it does. What it
    /// returns comes back; what it throws comes out of here, and a commit it made before stays. It reads, decides and
    /// commits at most once, and does not wait for another writer of the session.
    template <class Function>
    std::invoke_result_t<Function &, Mutation &> mutate(Function &&function,
                                                        const Context &ctx = Context::background());

  private:
    template <class Function>
    [[nodiscard]] Addresses addresses_by(Function function, const std::optional<AddressView> &after, std::size_t limit,
                                         const Context &ctx) const {
        using Text = std::optional<std::string_view>;
        const Text name_space = after ? Text(after->name_space) : std::nullopt;
        const Text key = after ? Text(after->key) : std::nullopt;
        return Addresses(detail::made_by<pi_addresses>(function, ctx, handle(), name_space, key, limit));
    }
};

namespace detail {
/// A function that runs inside pi_session_mutate, and what became of it. No exception goes through C: it waits here.
template <class Function>
class Scope {
    using Result = std::invoke_result_t<Function &, Mutation &>;
    static_assert(!std::is_reference_v<Result>, "what a mutation returns must outlive it: return a value");
    static constexpr bool is_void = std::is_void_v<Result>;

  public:
    explicit Scope(Function &function) noexcept : function_(function) {}

    static std::int32_t run(pi_mutation *raw, const pi_context *, void *data, pi_error **) noexcept {
        auto &scope = *static_cast<Scope *>(data);
        Mutation mutation(raw);
        std::int32_t code = PI_OK;
        try {
            if constexpr (is_void)
                std::invoke(scope.function_, mutation);
            else
                scope.result_.emplace(std::invoke(scope.function_, mutation));
        } catch (...) {
            scope.thrown_ = std::current_exception();
            code = threw;
        }
        static_cast<void>(mutation.release()); // pi_session_mutate ends and frees it
        return code;
    }

    /// What the function returned or threw. `code` and `error` are what pi_session_mutate gave.
    Result result(std::int32_t code, pi_error *error) {
        if (thrown_) {
            pi_error_free(error);
            std::rethrow_exception(std::move(thrown_));
        }
        if (code != PI_OK) raise(code, error);
        if constexpr (!is_void) return *std::move(result_);
    }

  private:
    /// A number of the application's own, which nobody gets to see.
    static constexpr std::int32_t threw = -1001;

    Function &function_;
    std::exception_ptr thrown_;
    std::conditional_t<is_void, std::monostate, std::optional<std::conditional_t<is_void, int, Result>>> result_;
};
} // namespace detail

template <class Function>
std::invoke_result_t<Function &, Mutation &> Session::mutate(Function &&function, const Context &ctx) {
    using Scope = detail::Scope<std::remove_reference_t<Function>>;
    Scope scope(function);
    pi_error *error = nullptr;
    const std::int32_t code = pi_session_mutate(handle(), Scope::run, &scope, nullptr, ctx.handle(), &error);
    return scope.result(code, error);
}

// --------------------------------------------------------------------------------------------------------------
// Repositories
// --------------------------------------------------------------------------------------------------------------

/// A new session that goes on from another one.
struct Fork {
    /// Open for writing.
    Session session;
    /// A JSON array with the names of lanes whose configuration was left out, since the source holds it by half.
    std::string left_out;
};

/// What importing a file gave.
struct Import {
    /// The id of the session.
    std::string id;
    /// False if it was there already.
    bool added;
    /// What was found in the file.
    Legacy legacy;
};

/// A place where sessions are kept.
class Repository : public detail::Handle<pi_repository, pi_repository_free> {
  public:
    /// Takes over a repository of C.
    explicit Repository(pi_repository *repository) noexcept : Handle(repository) {}

    /// Makes a session and opens it for writing. It holds nothing but its metadata. Throws SessionExistsError.
    Session create(const SessionOptions &options = {}, const Context &ctx = Context::background()) {
        const pi_session_options raw = detail::options_of(options);
        return Session(detail::made_by<pi_session>(pi_session_create, ctx, handle(), &raw));
    }

    /// Opens a session, unless asked otherwise for writing; only one place at a time can. Throws UnknownSessionError,
    /// SessionBusyError.
    [[nodiscard]] Session open(std::string_view id, const OpenOptions &options = {},
                               const Context &ctx = Context::background()) {
        const pi_open_options raw = detail::options_of(options);
        return Session(detail::made_by<pi_session>(pi_session_open_with, ctx, handle(), id, &raw));
    }

    /// Opens a session for reading, beside whoever writes it. Writing fails with ReadOnly.
    [[nodiscard]] Session open_read_only(std::string_view id, const Context &ctx = Context::background()) {
        return Session(detail::made_by<pi_session>(pi_session_open_read_only, ctx, handle(), id));
    }

    /// Makes a new session from one that is open, in whatever mode and repository, over one snapshot of it: the commits
    /// that were made before. May be called inside a mutation. Throws SessionExistsError.
    Fork fork(Session &source, const ForkOptions &options = {}, const Context &ctx = Context::background()) {
        const pi_fork_options raw = detail::options_of(options);
        pi_session *session = nullptr;
        pi_buf *left_out = nullptr;
        detail::call(pi_session_fork, handle(), source.handle(), &raw, &session, &left_out, ctx);
        Session made(session); // owned before a text is copied
        return {std::move(made), detail::text(left_out)};
    }

    /// fork of the session of that id in source, which may be this repository; the session may be open elsewhere, for
    /// writing too. path is the bytes of the name of its file, as SessionView has it, where several files hold a
    /// session of that id. Throws UnknownSessionError, SessionExistsError.
    Fork fork_stored(const Repository &source, std::string_view id, const ForkOptions &options = {},
                     std::optional<std::string_view> path = std::nullopt,
                     const Context &ctx = Context::background()) {
        const pi_fork_options raw = detail::options_of(options);
        pi_session *session = nullptr;
        pi_buf *left_out = nullptr;
        detail::call(pi_session_fork_stored, handle(), source.handle(), id, path, &raw, &session, &left_out, ctx);
        Session made(session); // owned before a text is copied
        return {std::move(made), detail::text(left_out)};
    }

    /// Makes a session from the session file of version 1 to 3 at path, which is not written. A session that came from
    /// this file, or from one that starts with it, is left as it is. Corrupt for a damaged file without salvage.
    Import import_file(const std::filesystem::path &path, const ImportOptions &options = {},
                       const Context &ctx = Context::background()) {
        pi_import_options raw = detail::options_of(options);
        return detail::telling(options.progress, raw, [&] {
            pi_buf *id = nullptr;
            std::uint64_t added = 0;
            pi_legacy *legacy = nullptr;
            detail::call(pi_repository_import, handle(), path, &raw, &id, &added, &legacy, ctx);
            Legacy found(legacy);
            return Import{detail::text(id), added == 1, std::move(found)};
        });
    }

    /// Session::convert for every session of it, newest first. One that fails does not stop the others.
    Conversions convert(Repository &into, const ConvertOptions &options = {},
                        const Context &ctx = Context::background()) const {
        pi_convert_options raw = detail::options_of(options);
        return detail::telling(options.progress, raw, [&] {
            return Conversions(
                detail::made_by<pi_conversions>(pi_repository_convert, ctx, handle(), into.handle(), &raw));
        });
    }

    /// Its sessions, newest first; one bad file does not hide the others.
    [[nodiscard]] Sessions list(const ListOptions &options = {}, const Context &ctx = Context::background()) const {
        const pi_list_options raw = detail::options_of(options);
        return Sessions(detail::made_by<pi_sessions>(pi_repository_list, ctx, handle(), &raw));
    }

    /// Deletes a session that is open nowhere. Throws SessionBusyError, UnknownSessionError.
    void delete_session(std::string_view id, const Context &ctx = Context::background()) {
        detail::call(pi_repository_delete, handle(), id, ctx);
    }

    /// delete_session for the session in the file at path, as SessionView has it, where several files hold a session of
    /// that id.
    void delete_session_at(std::string_view id, const std::filesystem::path &path,
                           const Context &ctx = Context::background()) {
        detail::call(pi_repository_delete_at, handle(), id, path, ctx);
    }

    /// Closes it and every session that was opened through it; waits for what has begun. May be called again.
    void close(const Context &ctx = Context::background()) { detail::call(pi_repository_close, handle(), ctx); }
};

inline bool Session::convert(Repository &into, const ConvertOptions &options, const Context &ctx) const {
    pi_convert_options raw = detail::options_of(options);
    return detail::telling(options.progress, raw, [&] {
        std::uint64_t made = 0;
        detail::call(pi_session_convert, handle(), into.handle(), &raw, &made, ctx);
        return made == 1;
    });
}

namespace detail {
/// The repository that an option names; NULL for none. One that was moved from is not none: Misuse.
[[nodiscard]] inline pi_repository *repository_of(const Repository *repository) {
    if (repository == nullptr) return nullptr;
    if (!*repository) call(pi_repository_close, repository->handle(), Context::background()); // C says what is wrong
    return repository->handle();
}

inline pi_open_options options_of(const OpenOptions &options) {
    pi_open_options raw;
    pi_open_options_init(&raw, sizeof raw);
    raw.read_only = options.read_only ? 1 : 0;
    raw.legacy = static_cast<std::int64_t>(options.legacy);
    raw.copy_to = repository_of(options.copy_to);
    raw.salvage = options.salvage ? 1 : 0;
    raw.strict = options.strict ? 1 : 0;
    set_text(raw.path, raw.path_len, options.path);
    return raw;
}

inline pi_repair_options options_of(const RepairOptions &options) {
    pi_repair_options raw;
    pi_repair_options_init(&raw, sizeof raw);
    raw.into = repository_of(options.into);
    set_text(raw.id, raw.id_len, options.id);
    set_text(raw.session, raw.session_len, options.session);
    return raw;
}
} // namespace detail

/// Opens the session file at path, whatever it is called; old files for reading unless asked otherwise. NotASession for
/// anything else, Unsupported for SQLite databases.
[[nodiscard]] inline Session open_file(const std::filesystem::path &path, const OpenOptions &options = {},
                                       const Context &ctx = Context::background()) {
    const pi_open_options raw = detail::options_of(options);
    return Session(detail::made_by<pi_session>(pi_session_open_file, ctx, path, &raw));
}

/// Makes a new session of what can be read of the one in the file at path: JSON lines of any version, or SQLite. The
/// file is only read. Ids, seqs and timestamps stay; the new session appears whole or not at all, and is not open.
/// Without RepairOptions::into it is a look only. NotASession if nothing in the file is of a session.
inline Repair repair_file(const std::filesystem::path &path, const RepairOptions &options = {},
                          const Context &ctx = Context::background()) {
    pi_repair_options raw = detail::options_of(options);
    return detail::telling(options.progress, raw, [&] {
        return Repair(detail::made_by<pi_repair>(pi_repair_file, ctx, path, &raw));
    });
}

/// Opens the repository that uri names: memory: (a new one each time), sqlite:PATH or jsonl:PATH. What is not there
/// yet is made by the first Repository::create. InvalidArgument for a text that names none.
[[nodiscard]] inline Repository open_repository(std::string_view uri, const RepositoryOptions &options = {},
                                                const Context &ctx = Context::background()) {
    const pi_repository_options raw = detail::options_of(options);
    return Repository(detail::made_by<pi_repository>(pi_repository_open, ctx, uri, &raw));
}

// --------------------------------------------------------------------------------------------------------------
// The log
// --------------------------------------------------------------------------------------------------------------

/// How much the log tells; what each level is, is said at the PI_LOG_ numbers in pisession.h.
enum class LogLevel : std::int64_t {
    Error = PI_LOG_ERROR,
    Warn = PI_LOG_WARN,
    Info = PI_LOG_INFO,
    Debug = PI_LOG_DEBUG,
    Trace = PI_LOG_TRACE,
};

/// Gives the lines of the library to function(LogLevel, std::string_view), up to a level: one log for the whole
/// process, in place of the last. The function is called on the thread of the call that the line is about, from several
/// at once; it must not use the library. What it throws is dropped, as there is no call to hand it to.
template <class Function>
void set_log(LogLevel level, Function function) {
    auto kept = std::make_unique<Function>(std::move(function));
    const auto log = [](std::int64_t of, const char *line, std::size_t len, void *data) noexcept {
        try {
            (*static_cast<Function *>(data))(static_cast<LogLevel>(of), std::string_view(line, len));
        } catch (...) {
        }
    };
    const auto drop = [](void *data) noexcept { delete static_cast<Function *>(data); };
    // From here on it is dropped by C, also on failure.
    detail::call(pi_set_log, static_cast<std::int64_t>(level),
                 static_cast<void (*)(std::int64_t, const char *, std::size_t, void *)>(log),
                 static_cast<void *>(kept.release()), static_cast<void (*)(void *)>(drop));
}

/// Ends the log: the library gives no lines.
inline void end_log() {
    detail::call(pi_set_log, static_cast<std::int64_t>(PI_LOG_OFF), nullptr, nullptr, nullptr);
}

} // namespace pisession

#endif // PISESSION_HPP

// What the C++ test programs share. Every program takes the URI of an empty repository as its first argument.
#ifndef CHECK_HPP
#define CHECK_HPP

#include <cstdlib>
#include <iostream>
#include <string>

#include <pisession.hpp>

namespace pi = pisession;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::cerr << __FILE__ << ':' << __LINE__ << ": not so: " #condition "\n";                                  \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (false)

/// The error that a call fails with. The call must fail.
template <class Call>
pi::Error failure_of(Call &&call) {
    try {
        call();
    } catch (const pi::Error &error) {
        return error;
    }
    std::cerr << "a call that had to fail did not\n";
    std::exit(1);
}

#define FAILS(expected, ...)                                                                                           \
    do {                                                                                                               \
        const pi::Error error_ = failure_of([&] { static_cast<void>(__VA_ARGS__); });                                  \
        if (error_.kind() != pi::ErrorKind::expected || *error_.what() == '\0' || error_.name() != #expected) {        \
            std::cerr << __FILE__ << ':' << __LINE__ << ": " #__VA_ARGS__ ": " << error_.name() << " in place of "     \
                      << #expected << ", " << error_.what() << '\n';                                                   \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (false)

/// Whether a call throws just that.
template <class Thrown, class Call>
bool throws(Call &&call) {
    try {
        call();
    } catch (const Thrown &) {
        return true;
    }
    return false;
}

/// A repository at the URI of the command line; what is tested here needs no power loss survived.
inline pi::Repository repository_of(int argc, char **argv) {
    CHECK(argc == 2);
    pi::RepositoryOptions options;
    options.durability = pi::Durability::Process;
    return pi::open_repository(argv[1], options);
}

/// A new session of that id.
inline pi::Session session_of(pi::Repository &repository, std::string_view id) {
    pi::SessionOptions options;
    options.id = id;
    return repository.create(options);
}

inline std::string user(std::string_view text) {
    return "{\"role\":\"user\",\"content\":\"" + std::string(text) + "\"}";
}

#endif

/*
 * A host with two threads: two agents share one session, each on a branch of its own.
 *
 *     two_agents <repository-uri> [turns]
 *
 * Both branches begin at the same question. Each turn an agent reads the end of its branch, "thinks" outside of the
 * session, and appends an answer; what it cost and the number of all turns are kept in one commit, so that nothing is
 * lost between the threads. At the end the shorter branch is marked as the one to go on with.
 *
 *     c++ -std=c++17 two_agents.cpp $(pkg-config --cflags --libs pisession) -pthread -o two_agents
 */

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>

#include <pisession.hpp>

namespace {

constexpr std::string_view APP = "two_agents";

/// What the model would be: it takes the last entry and gives the next message.
std::string answer(std::string_view agent, int turn, std::string_view last) {
    return "{\"role\":\"user\",\"content\":\"" + std::string(agent) + ", turn " + std::to_string(turn) + ", after " +
           std::to_string(last.size()) + " bytes\"}";
}

/// One row of the ledger for a turn.
std::string usage(const std::string &id, std::size_t tokens) {
    const std::string count = std::to_string(tokens);
    return "{\"id\":\"" + id + R"(","usage":{"input":)" + count + R"(,"output":0,"cacheRead":0,"cacheWrite":0,)" +
           "\"totalTokens\":" + count + R"(,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},)" +
           "\"adjustment\":false}";
}

/// What an agent does on its thread. Every call may be made from any thread.
void run_agent(pisession::Session &session, const std::string &name, int turns) {
    pisession::Branch branch = session.branch(name).value();
    for (int turn = 1; turn <= turns; turn++) {
        // Reads never wait for the other agent's writes.
        pisession::BranchScan newest;
        newest.limit = 1;
        const pisession::Entries last = branch.find_entries(newest);
        const std::string message = answer(name, turn, last.front().payload);

        branch.append_message(message);
        session.mutate([&](pisession::Mutation &m) { // nobody writes between this read and this commit
            const auto stored = m.get_value(APP, "turns");
            pisession::Writes writes;
            writes.set_value(APP, "turns", std::to_string(stored ? std::stol(*stored) + 1 : 1));
            writes.insert_usage(usage(session.new_id(), message.size()));
            m.commit(writes);
        });
    }
}

/// Runs an agent; what it fails with goes to `failure`.
std::thread start(pisession::Session &session, std::string name, int turns, std::exception_ptr &failure) {
    return std::thread([&session, name = std::move(name), turns, &failure] {
        try {
            run_agent(session, name, turns);
        } catch (...) {
            failure = std::current_exception();
        }
    });
}

void print(const pisession::Branch &branch) {
    std::cout << branch.name() << ":\n";
    pisession::BranchScan oldest_first;
    oldest_first.order = pisession::Order::Ascending;
    for (const auto &entry : branch.entries(oldest_first)) std::cout << "  " << entry.seq << ' ' << entry.payload << '\n';
}

void run(const char *uri, int turns) {
    pisession::Repository repository = pisession::open_repository(uri);
    pisession::Session session = repository.create();
    const std::string question =
        session.create_branch("main").append_message(R"({"role":"user","content":"Which way is better?"})");
    pisession::Branch fast = session.create_branch("fast", question);
    pisession::Branch careful = session.create_branch("careful", question);

    std::exception_ptr failures[2];
    std::thread one = start(session, "fast", turns, failures[0]);
    std::thread other = start(session, "careful", 2 * turns, failures[1]);
    one.join();
    other.join();
    for (const std::exception_ptr &failure : failures)
        if (failure) std::rethrow_exception(failure);

    print(fast);
    print(careful);
    session.set_label(fast.tip_id().value(), "go on here");
    std::cout << "turns: " << session.get_value(APP, "turns").value_or("none")
              << ", tokens: " << session.stats().total_tokens << '\n';
    session.close();
}

} // namespace

int main(int argc, char **argv) {
    const int turns = argc == 3 ? std::atoi(argv[2]) : 3;
    if (argc < 2 || argc > 3 || turns < 1) {
        std::cerr << "usage: " << argv[0] << " <repository-uri> [turns]\n";
        return 2;
    }
    try {
        run(argv[1], turns);
        return 0;
    } catch (const pisession::Error &error) {
        std::cerr << error.name() << ": " << error.what() << (error.hint() ? "; " + *error.hint() : "") << '\n';
    } catch (const std::exception &error) {
        std::cerr << error.what() << '\n';
    }
    return 1;
}

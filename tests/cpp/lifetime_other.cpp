// The second unit of lifetime.cpp that includes the header.
#include <pisession.hpp>

std::string message_by_the_other_unit(pisession::Session &session);

std::string message_by_the_other_unit(pisession::Session &session) {
    pisession::Branch branch = session.create_branch("other");
    const pisession::Context context(std::chrono::seconds(60));
    return branch.append_message(R"({"role":"user","content":"from the other unit"})", context);
}

/* Reads behind what the library gave: an address checker must say so. */
#include "../check.h"

int main(void) {
    pi_repository *repository = open_quick("memory:");
    pi_session *session = create_session(repository, "x");
    pi_buf *id = NULL;
    volatile char behind;
    OK(pi_session_new_id(session, &id, &error));
    behind = pi_buf_data(id)[pi_buf_len(id) + 1];
    (void)behind;
    pi_buf_free(id);
    finish(repository, session);
    return 0;
}

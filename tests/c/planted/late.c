/* Reads a view after its set was freed: an address checker must say so. */
#include "../check.h"

int main(void) {
    pi_repository *repository = open_quick("memory:");
    pi_session *session = create_session(repository, "x");
    pi_buf *id = NULL;
    const char *data;
    volatile char late;
    OK(pi_session_new_id(session, &id, &error));
    data = pi_buf_data(id);
    pi_buf_free(id);
    late = data[0];
    (void)late;
    finish(repository, session);
    return 0;
}

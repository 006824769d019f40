/* Leaks errors of the library: a leak checker must say so. */
#include "../check.h"

int main(void) {
    int round;
    /* Of the last one the stack may still know. */
    for (round = 0; round < 20; round++) {
        pi_repository *repository = NULL;
        pi_error *error = NULL;
        CHECK(pi_repository_open("nothing", PI_NUL, NULL, &repository, NULL, &error) != PI_OK && error != NULL);
    }
    return 0;
}

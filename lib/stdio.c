/* Runs before main, and so before the start-up code of Rust, which opens /dev/null for every standard descriptor that the
 * caller has closed: output would vanish there and the run would succeed. Here they are opened the other way round, so
 * that reading from a closed stdin and writing to a closed stdout fail with EBADF, as in GNU's tools (gnulib: stdopen).
 * Later the two cannot be told apart: a caller may well have meant /dev/null, and opened it for reading and writing. */

#include <errno.h>
#include <fcntl.h>

__attribute__((constructor)) static void hold_closed_descriptors(void) {
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
            /* The lowest free descriptor is this one. */
            if (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) {
                return;
            }
        }
    }
}

#include <stdlib.h>
#include <string.h>

int main(void) {
    for (;;)
        memset(malloc(1 << 24), 1, 1 << 24);
}

#include <stddef.h>

int main(void) {
    int *nothing = NULL;
    return *nothing;
}

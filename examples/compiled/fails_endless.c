int main(void) {
    for (;;)
        ;
}

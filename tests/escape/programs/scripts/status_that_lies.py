# expect: exited_nonzero exit_code=1 | run: program=script exec=yes
class Zero(int):
    def __index__(self):
        return 0

    def __and__(self, other):
        return 0


class Leaves(SystemExit):
    @property
    def code(self):
        return 0


raise Leaves(Zero(1))

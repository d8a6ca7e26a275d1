import io

from assayd_mcp.serving import BoundedLineReader


class Sent:
    def __init__(self) -> None:
        self.messages = []

    async def send(self, message) -> None:
        self.messages.append(message.message)


async def test_line_that_is_too_long_is_refused_and_the_next_one_read() -> None:
    lines = BoundedLineReader(io.BytesIO(b"one\n" + b"x" * 5000 + b"\ntwo\n" + b"\xff\n"), most=100)
    lines.answers = Sent()

    assert [line async for line in lines] == ["one\n", "two\n", "\ufffd\n"]
    assert [(each.id, each.error.message[:37]) for each in lines.answers.messages] == [
        (None, "the message exceeds 100 bytes and was")
    ]


async def test_line_without_an_end_is_read_at_the_end_of_the_stream() -> None:
    assert [line async for line in BoundedLineReader(io.BytesIO(b"one"), most=100)] == ["one"]


def test_http_without_a_token_file_is_refused(capsys) -> None:
    from assayd_client.cli import main

    assert main(["mcp", "--http", "8765"]) == 2
    assert "--http and --token-file must be used together" in capsys.readouterr().err

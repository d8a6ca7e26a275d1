"""The provider is told when its answer had the wrong form; other errors change nothing."""

from assayd.clock import SystemClock
from assayd.errors import ProviderError
from assayd.model.prompting import SourcePart
from assayd_chains.loop import ask_provider
from assayd_chains.provider import FixRequest, Reply

REQUEST = FixRequest(system="s", user="u\n", passage=SourcePart(name="code", language="python", text="x"))


class Provider:
    name = "scripted"

    def __init__(self, *problems: ProviderError | Reply) -> None:
        self.problems = list(problems)
        self.users: list[str] = []

    async def fix(self, request: FixRequest, *, timeout_s: float) -> Reply:
        self.users.append(request.user)
        if self.problems:
            problem = self.problems.pop(0)
            if isinstance(problem, Reply):
                return problem
            raise problem
        return Reply(code="x", reason="")


async def no_pause(_: float) -> None:
    """Continue immediately."""


async def asked(*problems: ProviderError | Reply) -> list[str]:
    provider = Provider(*problems)
    await ask_provider(provider, REQUEST, timeout_s=60, clock=SystemClock(), sleep=no_pause)
    return provider.users


async def test_answer_of_the_wrong_form_is_asked_for_again_with_what_was_wrong() -> None:
    wrong = [
        ProviderError("provider.reply", f"the reply {what}", retryable=True)
        for what in ("is empty", "is long")
    ]
    first, second, third = await asked(*wrong)
    assert first == "u\n"
    assert second.endswith("YOUR LAST ANSWER HAD THE WRONG FORM\nthe reply is empty.\n")
    assert third == second.replace("is empty", "is long")


async def test_other_troubles_leave_the_request_as_it_is() -> None:
    assert set(await asked(ProviderError("provider.busy", "later", retryable=True))) == {"u\n"}


async def test_question_that_was_not_invited_is_an_answer_of_the_wrong_form() -> None:
    first, second = await asked(Reply(reason="", question="Which columns?"))
    assert first == "u\n"
    assert second.endswith(
        "YOUR LAST ANSWER HAD THE WRONG FORM\nthe reply is a question; answer with code.\n"
    )

"""Notices of other gateways: a wrong one ends nothing."""

from assayd_cluster.gateway.notices import GatewayNotices, Notice


def test_notice_that_cannot_be_heard_leaves_the_next_ones_heard() -> None:
    notices = GatewayNotices("postgresql://localhost/x", "mine")
    heard: list[int] = []

    def hear(notice: Notice) -> None:
        heard.append(1 // notice["number"])

    notices.register_callback("event", hear)
    theirs = GatewayNotices("postgresql://localhost/x", "theirs")
    for text in ("{", "[]", theirs.write("event", number=0), theirs.write("event", number=1)):
        notices._dispatch_notice(text)
    assert heard == [1]

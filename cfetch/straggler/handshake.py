"""When the kernel repeats an unanswered handshake: what a connection attempt gains if nobody breaks it off.

A SYN that is lost, or that a full backlog drops, is sent again after 1 s, then after twice as long each time
(RFC 6298, 2.1 and 5.5; Linux, macOS and BSD). Such a silence says nothing about the server or its object.
Pure.
"""

FIRST_REPEAT_S = 1.0
WORTH_S = 0.5  # before the kernel's next SYN: a smaller gain is not worth a connection
MOST_REPEATS = 10  # Linux gives up after six


def _find_syns(waited_s: float) -> tuple[float, float]:
    """When the kernel has sent its last SYN, and sends the next, in seconds after the first one."""
    last_s, next_s = 0.0, FIRST_REPEAT_S
    for _ in range(MOST_REPEATS):
        if next_s > waited_s:
            break
        last_s, next_s = next_s, 2 * next_s + FIRST_REPEAT_S
    return last_s, max(next_s, waited_s)


def gains_by_another(waited_s: float, answer_s: float) -> bool:
    """Whether another connection would be made sooner than one whose handshake has no answer yet.

    The kernel's last SYN has had ``answer_s`` for its answer, and the next comes clearly later.
    """
    last_s, next_s = _find_syns(waited_s)
    return waited_s - last_s > answer_s and next_s - waited_s > WORTH_S


def next_syn_s(waited_s: float) -> float:
    """Seconds after the first SYN at which the kernel sends the next one, if ``waited_s`` have passed."""
    return _find_syns(waited_s)[1]


def round_trip_s(handshake_s: float) -> float:
    """Seconds from the SYN that was answered to its answer, if the handshake took ``handshake_s``."""
    return handshake_s - _find_syns(handshake_s)[0]

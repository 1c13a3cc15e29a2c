"""How long tests wait: for events, until a test as a whole has to end.

ctest ends a test that passes its limit (cmake/cohort_tests.cmake) without a word on what it waited for. So all waits
of a test share one end at nine tenths of that limit, counted from the test's start: then the test itself says what
did not come. No wait has a shorter limit of its own, since how long something takes depends on the machine and on
what else runs there. By hand, where series can be long, each wait has an hour.
"""

import os
import time

BY_HAND_S = 3600
CASE_S = 600  # one of many cases: when it hangs, the others still run

_LIMIT_S = os.environ.get("COHORT_TEST_LIMIT_S")
_END = _LIMIT_S and time.monotonic() + 0.9 * float(_LIMIT_S)


def left_s(most=BY_HAND_S):
    """Seconds that a wait has: the `timeout` of whatever takes one."""
    return max(1.0, min(most, _END - time.monotonic())) if _END else most


def wait_until(condition, what, going_on=None):
    """Waits until `condition()` is true and returns its value.

    AssertionError when no time is left, or once `going_on()` is false and the condition did not come true with that;
    `what` is a text, or a function that makes it then.
    """
    end = time.monotonic() + left_s()
    pause_s = 0.005
    while True:
        over = going_on is not None and not going_on()
        met = condition()
        if met:
            return met
        if over or time.monotonic() > end:
            said = what() if callable(what) else what
            raise AssertionError(f"{'it ended before this' if over else 'this did not come in time'}: {said}")
        time.sleep(pause_s)
        pause_s = min(0.1, 1.2 * pause_s)

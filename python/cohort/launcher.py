"""How this process was started."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from cohort import _cohort


def joined(start: Callable[[], Any]) -> Any:
    """What `start`, which starts MPI, returns. Processes that MPI does not join are each the whole
    world to themselves: they end with exit code 2, as the program's do."""
    try:
        return start()
    except _cohort.SeparateTasksError as error:
        if _cohort.launch_environment()["local_rank"] == 0:  # one of a host speaks
            print(error, file=sys.stderr, flush=True)
        else:
            time.sleep(1)  # the launcher ends all when the first one leaves
        sys.exit(2)

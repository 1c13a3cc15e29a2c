#include "cohort/sched/timing.hpp"

namespace cohort {}  // namespace cohort

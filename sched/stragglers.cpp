#include "cohort/sched/stragglers.hpp"

namespace cohort {}  // namespace cohort

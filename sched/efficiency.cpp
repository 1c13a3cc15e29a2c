#include "cohort/sched/efficiency.hpp"

namespace cohort {}  // namespace cohort

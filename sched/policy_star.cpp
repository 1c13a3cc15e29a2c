#include "cohort/sched/chooser.hpp"

namespace cohort {}  // namespace cohort

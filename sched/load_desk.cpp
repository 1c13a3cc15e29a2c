#include "cohort/sched/load_desk.hpp"

namespace cohort {}  // namespace cohort

#include "cohort/sched/telemetry.hpp"

namespace cohort {}  // namespace cohort

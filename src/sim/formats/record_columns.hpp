#pragma once

#include <string>

#include "cohort/sched/telemetry.hpp"

namespace cohort {

/// Errors: FileError naming `where` and the column when a number of the record is out of range.
void check_record(const IterationRecord& record, const std::string& where);

}  // namespace cohort

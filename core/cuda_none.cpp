#include "core/profiler_range.hpp"

namespace cohort {

ProfilerRange::ProfilerRange(const char* /*name*/) noexcept {
}

ProfilerRange::~ProfilerRange() = default;  // NOLINT(performance-trivially-destructible)

}  // namespace cohort

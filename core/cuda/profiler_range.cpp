#include "core/profiler_range.hpp"

#include <nvtx3/nvToolsExt.h>

namespace cohort {

ProfilerRange::ProfilerRange(const char* name) noexcept {
    nvtxRangePushA(name);
}

ProfilerRange::~ProfilerRange() {
    nvtxRangePop();
}

}  // namespace cohort

#pragma once

namespace cohort {

/// A range on the calling thread's row of a profiler's timeline (NVTX; Nsight Systems shows it)
/// while it lives. Without an attached profiler a call that returns at once; without the CUDA
/// toolkit nothing.
class ProfilerRange {
public:
    /// @param name  is copied
    explicit ProfilerRange(const char* name) noexcept;
    ProfilerRange(const ProfilerRange&) = delete;
    ProfilerRange& operator=(const ProfilerRange&) = delete;
    ~ProfilerRange();  // NOLINT(performance-trivially-destructible): with the toolkit it does work
};

}  // namespace cohort

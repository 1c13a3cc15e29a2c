#pragma once

#include <vector>

namespace cohort::test {

/// What the library of fake_nvml.cpp answers; a test finds it as the symbol fake_nvml.
struct FakeNvml {
    struct Process {
        unsigned int pid = 0;
        unsigned int sm_percent = 0;
    };
    const char* bus = "0000:1b:00.0";  ///< of the GPU that it knows
    bool starts = true;                ///< false: nvmlInit fails
    bool silent = false;               ///< nothing is supported, as on small GPUs
    unsigned int clock = 1980;
    unsigned int most_clock = 1980;
    unsigned long long reasons = 0;
    unsigned int celsius = 40;
    unsigned long long corrected = 0;
    unsigned long long uncorrected = 0;
    std::vector<Process> processes;
    unsigned long long asked_since = 0;  ///< of the last question about processes
};

}  // namespace cohort::test

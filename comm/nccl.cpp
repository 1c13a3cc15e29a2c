// NCCL as a library of communicators.
#include "cohort/core/error.hpp"
#include "device_sums.hpp"

namespace cohort {

DeviceSumsLibrary& nccl_library() {
    fail<DeviceError>(
        {.where = "nccl", .what = "this version cannot use NCCL", .hint = "another --all-reduce"});
}

}  // namespace cohort

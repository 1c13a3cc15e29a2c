// Stands in for nccl.cpp in a build without NCCL: the same symbols, each refuses.
#include "cohort/core/error.hpp"
#include "comm/allreduce/nccl/device_sums.hpp"

namespace cohort {

DeviceSumsLibrary& nccl_library() {
    fail<DeviceError>({.where = "nccl",
                       .what = "this build has no NCCL",
                       .hint = "another --all-reduce, or a build where CMake finds nccl.h"});
}

}  // namespace cohort

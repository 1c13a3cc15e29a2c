#pragma once

#include <nccl.h>

#include <memory>
#include <string>

#include "comm/allreduce/nccl/device_sums.hpp"

namespace cohort {

/// What is used of NCCL, with its header's signatures. Those of memory are null in libraries before
/// 2.19.
struct NcclTable {
    decltype(&ncclGetUniqueId) get_unique_id = nullptr;
    decltype(&ncclCommInitRankConfig) init_rank = nullptr;
    decltype(&ncclCommGetAsyncError) get_async_error = nullptr;
    decltype(&ncclGetErrorString) get_error_string = nullptr;
    decltype(&ncclGetLastError) get_last_error = nullptr;
    decltype(&ncclAllReduce) all_reduce = nullptr;
    decltype(&ncclCommFinalize) finalize = nullptr;
    decltype(&ncclCommDestroy) destroy = nullptr;
    decltype(&ncclCommAbort) abort = nullptr;
    decltype(&ncclCommRegister) register_buffer = nullptr;
    decltype(&ncclCommDeregister) deregister_buffer = nullptr;
    decltype(&ncclMemAlloc) allocate = nullptr;
    decltype(&ncclMemFree) free = nullptr;
};

/// Errors: DeviceError when the machine has no NCCL, or an older one.
[[nodiscard]] NcclTable load_nccl();

/// DeviceSumsLibrary::allocate with these functions: memory that peers can map, or else the
/// device's own.
[[nodiscard]] Buffer allocate_nccl(const NcclTable& nccl, Device& device, std::size_t bytes);

/// DeviceSumsLibrary::join with these functions.
[[nodiscard]] std::unique_ptr<DeviceSums> join_nccl(const NcclTable& nccl, const std::string& id,
                                                    int members, int self, Device& device);

}  // namespace cohort

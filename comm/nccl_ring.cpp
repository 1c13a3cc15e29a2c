// Rings whose sums a library makes in device memory.
#include "device_sums.hpp"
#include "ring_engine.hpp"

namespace cohort {

std::unique_ptr<RingEngine> make_nccl_engine(const RingSetting& /*setting*/, Device& /*device*/,
                                             Stream& /*stream*/) {
    static_cast<void>(nccl_library());
    fail<DeviceError>({.where = "nccl",
                       .what = "this version makes no rings of it",
                       .hint = "another --all-reduce"});
}

}  // namespace cohort

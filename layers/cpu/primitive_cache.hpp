#pragma once

#include <algorithm>
#include <map>
#include <span>

#include "layers/cpu/dnnl_support.hpp"

namespace cohort {

/// Primitives of one layer by slice size. `Primitives` has descriptors `forward_scratch` and
/// `backward_scratch`. Reading what was prepared is thread safe.
template <class Primitives>
class PrimitiveCache {
public:
    /// Makes what is missing by `make(samples)`; returns the scratch memory for all these sizes.
    template <class Make>
    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes, Make&& make) {
        KernelMemory memory;
        for (const std::int64_t samples : slice_sizes) {
            auto found = made_.find(samples);
            if (found == made_.end()) {
                found = made_.emplace(samples, make(samples)).first;
            }
            memory.forward_scratch =
                std::max(memory.forward_scratch, found->second.forward_scratch.get_size());
            memory.backward_scratch =
                std::max(memory.backward_scratch, found->second.backward_scratch.get_size());
        }
        return memory;
    }
    [[nodiscard]] const Primitives& at(std::int64_t samples) const { return made_.at(samples); }

private:
    std::map<std::int64_t, Primitives> made_;
};

}  // namespace cohort

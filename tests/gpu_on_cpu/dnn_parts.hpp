#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "library.hpp"

// Descriptors and tensors of the library that stands in for cuDNN.
namespace cohort::on_cpu {

struct Descriptor {
    cudnnBackendDescriptorType_t type{};
    std::map<int, std::vector<std::byte>> attributes;
    int engine = 0;  ///< of configurations and engines
    bool finalized = false;

    template <class T>
    [[nodiscard]] std::vector<T> all(int name) const {
        const std::vector<std::byte>& bytes = attributes.at(name);
        std::vector<T> values(bytes.size() / sizeof(T));
        std::memcpy(values.data(), bytes.data(), bytes.size());
        return values;
    }
    template <class T>
    [[nodiscard]] T one(int name) const {
        return all<T>(name).at(0);
    }
    [[nodiscard]] const Descriptor& at(int name) const { return *one<const Descriptor*>(name); }
};

/// A tensor in memory: a virtual one has some of its own.
struct View {
    std::vector<std::int64_t> dims;
    std::vector<std::int64_t> strides;
    ElementType type{};
    void* data = nullptr;

    [[nodiscard]] std::int64_t index(std::int64_t n, std::int64_t c, std::int64_t h,
                                     std::int64_t w) const {
        const auto clipped = [&](std::int64_t i, std::size_t axis) {
            return dims[axis] == 1 ? 0 : i * strides[axis];
        };
        return clipped(n, 0) + clipped(c, 1) + clipped(h, 2) + clipped(w, 3);
    }
    [[nodiscard]] double get(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
        return read(data, type, index(n, c, h, w));
    }
    [[nodiscard]] std::vector<double> elements() const {
        std::vector<double> all(static_cast<std::size_t>(dims[0] * strides[0]));
        for (std::size_t i = 0; i < all.size(); ++i) {
            all[i] = read(data, type, static_cast<std::int64_t>(i));
        }
        return all;
    }
};

class Memory {
public:
    Memory(const std::vector<std::int64_t>& uids, const std::vector<void*>& pointers) {
        for (std::size_t i = 0; i < uids.size(); ++i) {
            places_[uids[i]] = pointers[i];
        }
    }
    View view(const Descriptor& tensor) {
        View made{.dims = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
                  .strides = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
                  .type = type_of(tensor.one<int>(CUDNN_ATTR_TENSOR_DATA_TYPE))};
        const auto uid = tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
        if (tensor.attributes.contains(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
            std::vector<float>& own = virtual_[uid];
            own.resize(static_cast<std::size_t>(made.dims[0] * made.strides[0]));
            made.data = own.data();
        } else {
            made.data = places_.at(uid);
        }
        return made;
    }

private:
    static ElementType type_of(int type) {
        return type == CUDNN_DATA_BFLOAT16 ? ElementType::kBf16
               : type == CUDNN_DATA_HALF   ? ElementType::kF16
                                           : ElementType::kF32;  // numbers and masks of a graph too
    }
    std::map<std::int64_t, void*> places_;
    std::map<std::int64_t, std::vector<float>> virtual_;
};

/// Product, reduction or transposition.
void run_fused(const Descriptor& operation, Memory& memory);
/// False: a mode of what follows a convolution.
bool run_fused_pointwise(const Descriptor& operation, Memory& memory);

}  // namespace cohort::on_cpu

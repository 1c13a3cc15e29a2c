#include "cohort/layers/layer.hpp"

namespace cohort {

std::int64_t TensorFormat::sample_floats() const noexcept {
    if (shape.rank() != 3 || block == 1) {
        return shape.elements();
    }
    return (shape[0] + block - 1) / block * block * shape[1] * shape[2];
}

std::vector<TensorSpec> Layer::parameters(std::span<const Shape> /*inputs*/) const {
    return {};
}
std::vector<TensorSpec> Layer::state(std::span<const Shape> /*inputs*/) const {
    return {};
}
double Layer::forward_flops(std::span<const Shape> /*inputs*/) const {
    return 0;
}
std::shared_ptr<const Layer> Layer::with_relu() const {
    return nullptr;
}
std::shared_ptr<const Layer> Layer::with_add() const {
    return nullptr;
}

void Kernel::bind(const KernelBinding& /*binding*/) {
}
KernelMemory Kernel::prepare(std::span<const std::int64_t> /*slice_sizes*/) {
    return {};
}
void Kernel::begin_forward(std::byte* /*shared*/) {
}
void Kernel::end_forward(int /*pass*/, std::int64_t /*batch*/, std::byte* /*shared*/) {
}
void Kernel::begin_backward(std::byte* /*shared*/) {
}
void Kernel::end_backward(int /*pass*/, std::int64_t /*batch*/, std::byte* /*shared*/) {
}

}  // namespace cohort

#include "support/gpu/gpu_backend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string_view>
#include <utility>

namespace cohort::test {

std::unique_ptr<Device> Backend::device(int threads) const {
    return cuda ? make_cuda_device(0) : make_cpu_device(threads);
}

std::unique_ptr<OwnedReplica> Backend::replica(const Graph& graph, ReplicaOptions options,
                                               int threads) const {
    options.precision = precision;
    options.bf16_anywhere = true;
    return std::make_unique<OwnedReplica>(graph, device(threads), options);
}

std::ostream& operator<<(std::ostream& out, const Backend& backend) {
    return out << backend.name;
}

const std::vector<Backend>& all_backends() {
    static const std::vector<Backend> kBackends{
        {"cpu", false, Precision::kF32},       {"cuda_f32", true, Precision::kF32},
        {"cuda_tf32", true, Precision::kTf32}, {"cuda_bf16", true, Precision::kBf16},
        {"cuda_f16", true, Precision::kF16},   {"cpu_bf16", false, Precision::kBf16}};
    return kBackends;
}

std::vector<Backend> gpu_backends() {
    std::vector<Backend> found;
    std::copy_if(all_backends().begin(), all_backends().end(), std::back_inserter(found),
                 [](const Backend& backend) { return backend.cuda; });
    return found;
}

std::string backend_name(const ::testing::TestParamInfo<Backend>& made) {
    return made.param.name;
}

void need_gpu() {
    const CudaStatus status = cuda_status();
    if (status.device_count > 0) {
        return;
    }
#ifdef COHORT_GPU_REQUIRED
    FAIL() << "no usable GPU, and this build insists on one: " << status.detail;
#else
    GTEST_SKIP() << "no usable GPU: " << status.detail;
#endif
}

void need(const Backend& backend) {
    if (backend.cuda) {
        need_gpu();
    }
}

namespace {
template <int kBits, int... kSixteenths>
std::vector<Rounding> grids(std::integer_sequence<int, kSixteenths...> /*all*/) {
    return {rounded_beside<kBits, kSixteenths>...};
}
constexpr std::make_integer_sequence<int, 16> kSixteen{};
}  // namespace

CheckOptions limits(const Backend& backend, double factor) {
    CheckOptions options{.threads = 2};
    if (backend.name == std::string_view("cpu")) {
        options.tolerance = kDirectTolerance * factor;
        return options;
    }
    switch (backend.precision) {
        case Precision::kF32: options.tolerance = 6e-5 * factor; return options;
        case Precision::kTf32: options.tolerance = 0.02; break;
        case Precision::kBf16: options.tolerance = 0.16; break;
        case Precision::kF16: options.tolerance = 0.04; break;
    }
    if (!backend.cuda) {
        options.tolerance = 2 * std::ldexp(1.0, -8);
    }
    options.in_norm = true;
    options.clear_of_kinks = true;
    options.roundings = roundings_of(backend.precision);
    return options;
}

std::vector<Rounding> roundings_of(Precision precision) {
    switch (precision) {
        case Precision::kF32: break;
        case Precision::kTf32:
        case Precision::kF16: return grids<11>(kSixteen);
        case Precision::kBf16: return grids<8>(kSixteen);
    }
    return {};
}

}  // namespace cohort::test

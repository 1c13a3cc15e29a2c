#include "layers/cuda/support.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "layers/cuda/dnn/choices.hpp"
#include "layers/cuda/dnn/dnn_api.hpp"
#include "layers/cuda/kernels/element_kernels.hpp"
#include "layers/cuda/kernels/input_kernels.hpp"
#include "layers/cuda/kernels/weight_copies.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace cuda {

namespace {

/// A [C,H,W] whose elements are not in row-major order as they are.
bool reordered(const TensorFormat& format) {
    return format.shape.rank() == 3 && (format.block > 1 || format.shape[0] > 1);
}

}  // namespace

/// Copies of the weights that kernels want in other forms than the flat buffer has.
class WeightCopies {
public:
    WeightCopies(Device& device, Stream& stream, cudaStream_t native)
        : device_(device), stream_(stream), native_(native) {}

    /// See Support::want_weight and Support::weight.
    int want(const float* parameter, const WeightForm& form) {
        for (std::size_t i = 0; i < wanted_.size(); ++i) {
            if (wanted_[i].parameter == parameter && wanted_[i].form == form) {
                return static_cast<int>(i);
            }
        }
        wanted_.push_back({parameter, form, form.as_is() ? parameter : nullptr});
        return static_cast<int>(wanted_.size()) - 1;
    }
    [[nodiscard]] const void* place(int number) const noexcept {
        return wanted_[static_cast<std::size_t>(number)].place;
    }
    /// Memory for all copies that have none yet.
    void allocate() {
        const std::size_t first = placed_;
        std::size_t bytes = 0;
        for (std::size_t i = first; i < wanted_.size(); ++i) {
            bytes += copy_bytes(wanted_[i]);
        }
        if (bytes > 0) {  // earlier copies stay where they are: recordings know their addresses
            std::byte* place = static_cast<std::byte*>(keep(bytes));
            for (std::size_t i = first; i < wanted_.size(); ++i) {
                if (!wanted_[i].form.as_is()) {
                    wanted_[i].place = place;
                    place += copy_bytes(wanted_[i]);
                }
            }
        }
        placed_ = wanted_.size();
        if (first != placed_) {
            make_table();
        }
    }
    /// Queues all copies.
    void refresh() { refresh_copies(native_, table_, table_entries_, table_blocks_); }
    /// Of device memory.
    [[nodiscard]] std::size_t bytes() const noexcept {
        std::size_t sum = 0;
        for (const Buffer& buffer : kept_) {
            sum += buffer.bytes();
        }
        return sum;
    }

private:
    struct Wanted {
        const float* parameter = nullptr;
        WeightForm form;
        const void* place = nullptr;  ///< after allocate()
    };

    [[nodiscard]] static std::size_t copy_bytes(const Wanted& wanted) {
        return wanted.form.as_is() ? 0
                                   : padded(static_cast<std::size_t>(wanted.form.elements()) *
                                            element_bytes(wanted.form.type));
    }

    /// Device memory for as long as this lives.
    void* keep(std::size_t bytes) {
        kept_.push_back(device_.allocate(bytes));
        return kept_.back().data();
    }

    /// The table of all copies. An earlier one stays: recordings know its address.
    void make_table() {
        std::vector<WeightCopy> copies;
        table_blocks_ = 0;
        for (const Wanted& wanted : wanted_) {
            if (!wanted.form.as_is()) {
                copies.push_back({wanted.parameter, const_cast<void*>(wanted.place), wanted.form,
                                  table_blocks_});
                table_blocks_ += blocks_of_copy(wanted.form);
            }
        }
        table_entries_ = static_cast<int>(copies.size());
        if (copies.empty()) {
            return;
        }
        const std::size_t bytes = copies.size() * sizeof(WeightCopy);
        const Buffer staging = device_.allocate_host(bytes);
        std::memcpy(staging.data(), static_cast<const void*>(copies.data()), bytes);
        table_ = static_cast<const WeightCopy*>(keep(bytes));
        stream_.copy(kept_.back().data(), staging.data(), bytes);
        stream_.synchronize();
    }

    Device& device_;
    Stream& stream_;
    cudaStream_t native_;
    std::vector<Buffer> kept_;
    std::vector<Wanted> wanted_;
    std::size_t placed_ = 0;  ///< of wanted_, have their place
    const WeightCopy* table_ = nullptr;
    int table_entries_ = 0;
    std::int64_t table_blocks_ = 0;
};

Support::Support(Device& device, Stream& stream, Precision precision, bool deterministic)
    : device_(device),
      stream_(stream),
      native_(static_cast<cudaStream_t>(native_stream(stream))),
      precision_(precision),
      deterministic_(deterministic),
      choices_(std::make_unique<Choices>()),
      step_values_(device.allocate(sizeof(StepValues))),
      copies_(std::make_unique<WeightCopies>(device, stream, native_)) {
    stream.fill_zero(step_values_.data(), sizeof(StepValues));
}

Support::~Support() {
    choices_.reset();  // before the handle that plans were made with
    if (handle_ != nullptr) {
        dnn().destroy(handle_);
    }
}

TensorFormat Support::input_format(const Shape& input) const {
    const ElementType type = activation_type(precision_);
    if (input.rank() != 3) {
        return {input, 1, type};
    }
    const auto lanes = static_cast<std::int64_t>(16 / element_bytes(type));
    return {input, (input[0] + lanes - 1) / lanes * lanes, type};
}

void Support::prepare() {
    copies_->allocate();
}

void Support::refresh_weights() {
    copies_->refresh();
}

void Support::load_input(const TensorFormat& format, const float* from, void* to,
                         std::int64_t samples) {
    if (reordered(format)) {
        images_to_channels_last(native_, order_of(format), format.type, from, to, samples);
    } else {
        cast_elements(native_, format.type, to, ElementType::kF32, from,
                      samples * format.sample_floats());
    }
}

void Support::load_stored(const TensorFormat& format, const StoredSamples& from, void* to,
                          std::int64_t samples) {
    if (format.shape.rank() == 3) {
        stored_images_to_channels_last(native_, order_of(format), format.shape[2], format.type,
                                       from, to, samples);
    } else {
        stored_features(native_, format.sample_floats(), format.type, from, to, samples);
    }
}

void Support::read_output(const TensorFormat& format, const void* from, float* to,
                          std::int64_t samples) {
    if (reordered(format)) {
        images_to_row_major(native_, order_of(format), format.type, from, to, samples);
    } else {
        cast_elements(native_, ElementType::kF32, to, format.type, from,
                      samples * format.sample_floats());
    }
}

void Support::add_into(ElementType type, void* to, const void* from, std::int64_t count) {
    add_two_elements(native_, type, to, to, from, count, false);
}

void Support::unscale(float* gradients, std::int64_t count) {
    unscale_elements(native_, gradients, count, step_values());
}

std::size_t Support::bytes() const noexcept {
    return step_values_.bytes() + copies_->bytes();
}

cudnnHandle_t Support::dnn_handle() {
    if (handle_ == nullptr) {
        use(device_);
        dnn_check(dnn().create(&handle_), "cudnnCreate");
        dnn_check(dnn().set_stream(handle_, native_), "cudnnSetStream");
    }
    return handle_;
}

const DnnTarget& Support::dnn_target() {
    if (target_ == nullptr) {
        target_ = std::make_unique<HandleTarget>(dnn_handle());
    }
    return *target_;
}

int Support::want_weight(const float* parameter, const WeightForm& form) {
    return copies_->want(parameter, form);
}

const void* Support::weight(int number) const noexcept {
    return copies_->place(number);
}

}  // namespace cuda

std::unique_ptr<KernelSupport> make_cuda_support(Device& device, Stream& stream,
                                                 Precision precision, bool deterministic) {
    return std::make_unique<cuda::Support>(device, stream, precision, deterministic);
}

void fold_on_cuda(Device& device, Stream& stream, float* state, const float* batch,
                  std::int64_t count, float step) {
    cuda::use(device);
    cuda::fold_elements(static_cast<cudaStream_t>(cuda::native_stream(stream)), state, batch, count,
                        step);
}

}  // namespace cohort

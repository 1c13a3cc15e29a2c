#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/tensor/device.hpp"
#include "core/log.hpp"
#include "layers/model/executor.hpp"
#include "layers/model/whole_batch_plan.hpp"

namespace cohort {

/// One array of a batch, and its place in a plan.
struct BatchPart {
    const void* from = nullptr;
    std::size_t bytes = 0;
    std::size_t WholeBatchPlan::*place = nullptr;
};

/// What a run reads of a batch. @param with_labels  there is a loss  @param with_ids  dropout draws
[[nodiscard]] inline std::vector<BatchPart> parts_of(const Graph& graph, const BatchView& batch,
                                                     bool with_labels, bool with_ids) {
    const auto size = static_cast<std::size_t>(batch.size);
    const auto elements = size * static_cast<std::size_t>(graph.input_shape().elements());
    std::vector<BatchPart> parts;
    if (const StoredSamples& stored = batch.stored; stored.values != nullptr) {
        const auto channels = static_cast<std::size_t>(stored.channels);
        parts.push_back({stored.values, elements, &WholeBatchPlan::samples});
        parts.push_back({stored.crops, size * sizeof(ImageCrop), &WholeBatchPlan::crops});
        parts.push_back({stored.scales, 2 * channels * sizeof(float), &WholeBatchPlan::scales});
    } else {
        parts.push_back(
            {input_of(graph, batch), elements * sizeof(float), &WholeBatchPlan::samples});
    }
    if (with_labels && graph.loss() == LossKind::kSoftmaxCrossEntropy) {
        const auto positions = static_cast<std::size_t>(graph.positions());
        parts.push_back(
            {batch.labels, size * positions * sizeof(std::int32_t), &WholeBatchPlan::labels});
    } else if (with_labels) {
        const auto outputs = static_cast<std::size_t>(graph.outputs());
        parts.push_back({batch.targets, size * outputs * sizeof(float), &WholeBatchPlan::targets});
    }
    if (with_ids) {
        parts.push_back({batch.sample_ids, size * sizeof(std::int64_t), &WholeBatchPlan::ids});
    }
    return parts;
}

/// The next training step's batch in device memory of its own, copied there on a stream of its own
/// while the step before computes. The step copies it from there to its place, which takes a
/// hundredth of the time, and leaves the memory to the batch after it.
class BatchStaging {
public:
    /// Both outlive it.
    BatchStaging(Device& device, Stream& stream) : device_(device), stream_(stream) {}
    BatchStaging(const BatchStaging&) = delete;
    BatchStaging& operator=(const BatchStaging&) = delete;
    ~BatchStaging() {
        if (copies_ != nullptr) {
            try {
                copies_->synchronize();
            } catch (const DeviceError&) {  // nothing is copied any more
            }
        }
    }

    /// Begins to copy the parts of a batch that `serial` names.
    void begin(std::vector<BatchPart> parts, std::uint64_t serial) {
        if (serial == serial_) {
            return;
        }
        std::size_t bytes = 0;
        for (const BatchPart& part : parts) {
            bytes += aligned(part.bytes);
        }
        serial_ = 0;
        if (!make_room(bytes)) {
            return;
        }
        if (taken_ != nullptr) {
            copies_->wait_for(*taken_);
        }
        auto* place = static_cast<std::byte*>(memory_.data());
        for (BatchPart& part : parts) {
            copies_->copy(place, part.from, part.bytes);
            part.from = place;
            place += aligned(part.bytes);
        }
        parts_ = std::move(parts);
        arrived_ = copies_->record();
        serial_ = serial;
    }
    /// The parts in device memory, in the order of the stream, if that batch is here; else empty.
    /// Once: after it nothing is here. Another batch stays.
    [[nodiscard]] std::vector<BatchPart> take(std::uint64_t serial) {
        if (serial == 0 || serial != serial_) {
            return {};
        }
        serial_ = 0;
        stream_.wait_for(*arrived_);
        return std::move(parts_);
    }
    /// What reads the parts is queued on the stream.
    void taken() { taken_ = stream_.record(); }
    /// Gives the memory back, for good. False: there is none.
    bool drop() {
        if (memory_.bytes() == 0) {
            return false;
        }
        release();
        serial_ = 0;
        refused_ = 1;
        return true;
    }

private:
    static std::size_t aligned(std::size_t bytes) {
        constexpr std::size_t kAlignment = WholeBatchPlan::kAlignment;
        return (bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    /// False: there is no memory for it, and steps copy their batches themselves.
    [[nodiscard]] bool make_room(std::size_t bytes) {
        if (memory_.bytes() >= bytes) {
            return true;
        }
        if (refused_ != 0 && bytes >= refused_) {
            return false;
        }
        try {
            if (copies_ == nullptr) {
                copies_ = device_.create_stream();
            }
            release();
            memory_ = device_.allocate(bytes);
            return true;
        } catch (const OutOfMemory& error) {
            refused_ = bytes;
            log_warn("Batches are not copied ahead of their steps: {}", error.what());
            return false;
        }
    }

    void release() {
        copies_->synchronize();
        if (taken_ != nullptr) {
            taken_->wait();
        }
        memory_ = {};
    }

    Device& device_;
    Stream& stream_;
    std::unique_ptr<Stream> copies_;
    Buffer memory_;
    std::vector<BatchPart> parts_;    ///< in memory_
    std::uint64_t serial_ = 0;        ///< of the batch in memory_; 0: there is none
    std::size_t refused_ = 0;         ///< bytes that there was no memory for
    std::unique_ptr<Event> arrived_;  ///< in memory_
    std::unique_ptr<Event> taken_;    ///< out of memory_
};

}  // namespace cohort

// Devices by themselves: memory, copies, order of streams, events, recordings.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>

#include "cohort/core/error.hpp"
#include "core/tensor/cuda.hpp"
#include "support/gpu/gpu_backend.hpp"
#include "support/gpu/gpu_vector.hpp"

namespace cohort::test {
namespace {

class OfDevice : public ::testing::TestWithParam<Backend> {
protected:
    void SetUp() override {
        need(GetParam());
        if (!IsSkipped() && !HasFatalFailure()) {
            device_ = GetParam().device(1);
            stream_ = device_->create_stream();
        }
    }
    [[nodiscard]] bool cuda() const { return GetParam().cuda; }

    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> stream_;
};

INSTANTIATE_TEST_SUITE_P(Backends, OfDevice,
                         ::testing::Values(all_backends()[0], all_backends()[1]), backend_name);

std::vector<float> counting(std::size_t count, float first = 0) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), first);
    return values;
}

TEST_P(OfDevice, CopiesBetweenAllKindsOfMemory) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{3'000'000}}) {
        const std::size_t bytes = count * sizeof(float);
        const std::vector<float> values = counting(count);
        const Buffer pinned = device_->allocate_host(bytes);
        const Buffer first = device_->allocate(bytes);
        const Buffer second = device_->allocate(bytes);
        std::copy(values.begin(), values.end(), pinned.floats());
        stream_->copy(first.data(), pinned.data(), bytes);
        stream_->copy(second.data(), first.data(), bytes);
        EXPECT_EQ(DeviceVector::copy_of(*stream_, {second.floats(), count}), values);
        stream_->fill_zero(second.data(), bytes / 2);
        const std::vector<float> half = DeviceVector::copy_of(*stream_, {second.floats(), count});
        for (std::size_t i = 0; i < count; ++i) {
            ASSERT_EQ(half[i], i < count / 2 ? 0.0F : values[i]) << i;
        }
    }
}

TEST_P(OfDevice, MemoryIsAlignedAndCounted) {
    const DeviceMemory before = device_->memory();
    EXPECT_GT(before.total_bytes, 0U);
    EXPECT_LE(before.free_bytes, before.total_bytes);
    const Buffer buffer = device_->allocate(std::size_t{1} << 28);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0U);
    if (cuda()) {
        EXPECT_LE(device_->memory().free_bytes + (std::size_t{1} << 27), before.free_bytes);
    }
}

TEST_P(OfDevice, MemoryIsFreedByThreadsThatNeverUsedIt) {
    constexpr std::size_t kBytes = std::size_t{256} << 20;
    const std::uint64_t before = device_->memory().free_bytes;
    Buffer pinned = device_->allocate_host(4096);
    Buffer buffer = device_->allocate(kBytes);
    std::thread([&] { buffer = Buffer(), pinned = Buffer(); }).join();
    if (cuda()) {
        EXPECT_GE(device_->memory().free_bytes + kBytes / 2, before);
    }
}

TEST_P(OfDevice, TooMuchMemoryIsAnErrorThatSaysSoAndLeavesTheDeviceUsable) {
    if (!cuda()) {
        GTEST_SKIP() << "a host promises memory that it does not have";
    }
    const std::size_t asked = device_->memory().total_bytes + (std::size_t{1} << 30);
    try {
        static_cast<void>(device_->allocate(asked));
        FAIL() << "got more than there is";
    } catch (const OutOfMemory& error) {
        EXPECT_EQ(error.asked, asked);
        EXPECT_LT(error.free, asked);
        EXPECT_EQ(error.exit_code(), ExitCode::kDevice);
    }
    cuda::check_launch("nothing of it sticks");
    const DeviceVector vector(*device_, *stream_, counting(10));
    EXPECT_EQ(vector.values(), counting(10));
    stream_->synchronize();
}

TEST_P(OfDevice, EventsSayWhenAndHowLong) {
    const DeviceVector from(*device_, *stream_, counting(20'000'000));
    const DeviceVector to(*device_, *stream_, counting(20'000'000, 1));
    const auto start = std::chrono::steady_clock::now();
    const auto before = stream_->record();
    for (int i = 0; i < 20; ++i) {
        stream_->copy(to.span().data(), from.span().data(), to.span().size_bytes());
    }
    const auto after = stream_->record();
    after->wait();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(before->done());
    EXPECT_TRUE(after->done());
    EXPECT_GE(after->seconds_since(*before), 0);
    EXPECT_LE(after->seconds_since(*before), wall.count() + 1e-3);
    if (cuda()) {
        // 3.2 GB read and written; no GPU moves 100 TB/s.
        EXPECT_GT(after->seconds_since(*before), 3e-5);
    }
}

TEST_P(OfDevice, AnEventOutlivesWhatItWasRecordedBehind) {
    std::unique_ptr<Event> event;
    {
        const DeviceVector vector(*device_, *stream_, counting(1000));
        event = stream_->record();
    }
    event->wait();
    EXPECT_TRUE(event->done());
    for (int i = 0; i < 1000; ++i) {  // pools must not hand out what is in use
        auto next = stream_->record();
        if (i % 7 == 0) {
            event = std::move(next);
        }
    }
    stream_->synchronize();
    EXPECT_TRUE(event->done());
    auto gone = device_->create_stream();
    event = gone->record();
    event->wait();
    gone.reset();
    EXPECT_TRUE(event->done());
}

TEST_P(OfDevice, StreamsWaitForEachOther) {
    const std::size_t count = 8'000'000;
    const auto other = device_->create_stream();
    const DeviceVector source(*device_, *stream_, counting(count));
    const DeviceVector middle(*device_, *stream_, std::vector<float>(count, 0));
    const DeviceVector target(*device_, *stream_, std::vector<float>(count, 0));
    for (int round = 0; round < 5; ++round) {
        stream_->fill_zero(middle.span().data(), count * sizeof(float));
        for (int again = 0; again < 10; ++again) {  // keeps this stream busy
            stream_->copy(middle.span().data(), source.span().data(), count * sizeof(float));
        }
        other->wait_for(*stream_->record());
        other->copy(target.span().data(), middle.span().data(), count * sizeof(float));
        stream_->wait_for(*other->record());
        stream_->fill_zero(middle.span().data(), count * sizeof(float));
        stream_->synchronize();
        EXPECT_EQ(target.values(), source.values());
        stream_->fill_zero(target.span().data(), count * sizeof(float));
    }
}

TEST_P(OfDevice, RecordingsDoTheirWorkWheneverTheyAreQueued) {
    const DeviceVector from(*device_, *stream_, counting(1000));
    const DeviceVector to(*device_, *stream_, std::vector<float>(1000, -1));
    const bool records = stream_->begin_recording();
    EXPECT_EQ(records, cuda());
    stream_->copy(to.span().data(), from.span().data(), 1000 * sizeof(float));
    stream_->fill_zero(to.span().data(), 10 * sizeof(float));
    const std::unique_ptr<Recording> recording = stream_->end_recording();
    ASSERT_EQ(recording != nullptr, cuda());
    if (!records) {
        return;
    }
    EXPECT_EQ(to.values(), std::vector<float>(1000, -1)) << "recorded, not done";
    for (const float first : {0.0F, 500.0F, -3.0F}) {
        const std::vector<float> values = counting(1000, first);
        stream_->copy(from.span().data(), values.data(), 1000 * sizeof(float));
        recording->queue();
        std::vector<float> wanted = values;
        std::fill_n(wanted.begin(), 10, 0.0F);
        EXPECT_EQ(to.values(), wanted) << "reads what is there when it runs";
    }
}

TEST_P(OfDevice, AStreamCanBeUsedAfterAFailedRecording) {
    if (!cuda()) {
        GTEST_SKIP() << "nothing is recorded here";
    }
    ASSERT_TRUE(stream_->begin_recording());
    EXPECT_THROW(stream_->synchronize(), DeviceError) << "nothing may wait meanwhile";
    EXPECT_THROW(static_cast<void>(stream_->end_recording()), DeviceError);
    cuda::check_launch("nothing of it sticks");
    const DeviceVector vector(*device_, *stream_, counting(10));
    EXPECT_EQ(vector.values(), counting(10));
}

TEST_P(OfDevice, ServesThreadsThatDidNotMakeIt) {
    std::vector<float> got;
    std::thread([&] {
        const auto own = device_->create_stream();
        const DeviceVector vector(*device_, *own, counting(100));
        got = vector.values();
    }).join();
    EXPECT_EQ(got, counting(100));
}

TEST_P(OfDevice, IsDescribed) {
    EXPECT_EQ(device_->kind(), cuda() ? DeviceKind::kCuda : DeviceKind::kCpu);
    EXPECT_TRUE(device_->description().starts_with(cuda() ? "cuda:0: " : "cpu: "))
        << device_->description();
}

}  // namespace
}  // namespace cohort::test

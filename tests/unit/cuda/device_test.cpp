// The CUDA device: what is said where there is no GPU, and memory, streams, events and recordings
// where there is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/tensor/element.hpp"
#include "tensor/cuda.hpp"

namespace cohort {
namespace {

using testing::HasSubstr;

template <class E, class F>
std::string message_of(F&& f) {
    try {
        f();
    } catch (const E& error) {
        return error.what();
    }
    return "";
}

TEST(CudaStatus, SaysWhatThereIs) {
    const CudaStatus status = cuda_status();
    EXPECT_FALSE(status.detail.empty());
    EXPECT_TRUE(status.compiled || status.device_count == 0);
}

TEST(MakeDevice, TakesTheCpuWhereThereIsNoGpuAndRefusesOneThatIsAskedFor) {
    const CudaStatus status = cuda_status();
    EXPECT_EQ(make_device("auto", 1)->kind(),
              usable_gpus().count > 0 ? DeviceKind::kCuda : DeviceKind::kCpu);
    EXPECT_EQ(make_device("cpu", 1)->kind(), DeviceKind::kCpu);
    const std::string none = "cuda:" + std::to_string(status.device_count);
    try {
        static_cast<void>(make_device(none, 1));
        FAIL() << "a GPU that is not there";
    } catch (const DeviceError& error) {
        EXPECT_EQ(error.exit_code(), ExitCode::kDevice);
        EXPECT_THAT(error.what(), HasSubstr(none));
        EXPECT_THAT(error.what(), HasSubstr("--device cpu"));
    }
    for (const char* wrong : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "CUDA"}) {
        EXPECT_THROW(static_cast<void>(make_device(wrong, 1)), UsageError) << wrong;
    }
}

TEST(MakeDevice, RefusesToTreatOtherDevicesAsGpus) {
    const auto cpu = make_cpu_device(1);
    const auto stream = cpu->create_stream();
    EXPECT_THROW(static_cast<void>(cuda::gpu_facts(*cpu)), DeviceError);
    EXPECT_THROW(cuda::use(*cpu), DeviceError);
    EXPECT_THROW(static_cast<void>(cuda::native_stream(*stream)), DeviceError);
}

TEST(CpuStream, RecordsNothing) {
    const auto cpu = make_cpu_device(1);
    const auto stream = cpu->create_stream();
    EXPECT_FALSE(stream->begin_recording());
    EXPECT_EQ(stream->end_recording(), nullptr);
}

TEST(Precision, HasNamesAndTypes) {
    for (const Precision precision :
         {Precision::kF32, Precision::kTf32, Precision::kBf16, Precision::kF16}) {
        EXPECT_EQ(parse_word<Precision>(word_of(precision), "--precision"), precision);
    }
    EXPECT_EQ(activation_type(Precision::kTf32), ElementType::kF32);
    EXPECT_EQ(element_bytes(activation_type(Precision::kF16)), 2U);
    EXPECT_THAT(message_of<UsageError>(
                    [] { static_cast<void>(parse_word<Precision>("fp16", "--precision")); }),
                HasSubstr("fp16"));
}

class Gpu : public testing::Test {
protected:
    void SetUp() override {
        const CudaStatus status = cuda_status();
        if (status.device_count == 0) {
#ifdef COHORT_GPU_REQUIRED
            FAIL() << status.detail;
#else
            GTEST_SKIP() << status.detail;
#endif
        }
        device = make_cuda_device(0);
        stream = device->create_stream();
    }

    /// 0, 1, 2, ... in device memory.
    Buffer counted(std::size_t floats) {
        std::vector<float> values(floats);
        std::iota(values.begin(), values.end(), 0.0F);
        Buffer buffer = device->allocate(floats * sizeof(float));
        stream->copy(buffer.data(), values.data(), buffer.bytes());
        stream->synchronize();
        return buffer;
    }
    std::vector<float> read(const Buffer& buffer) {
        std::vector<float> values(buffer.bytes() / sizeof(float));
        stream->copy(values.data(), buffer.data(), buffer.bytes());
        stream->synchronize();
        return values;
    }

    std::unique_ptr<Device> device;
    std::unique_ptr<Stream> stream;
};

TEST_F(Gpu, CopiesThereAndBack) {
    const Buffer one = counted(1000);
    const Buffer other = device->allocate(one.bytes());
    stream->fill_zero(other.data(), other.bytes());
    EXPECT_EQ(read(other), std::vector<float>(1000));
    stream->copy(other.data(), one.data(), one.bytes());
    EXPECT_EQ(read(other), read(one));
    EXPECT_EQ(device->allocate(0).bytes(), 0U);
}

TEST_F(Gpu, PinnedMemoryIsMemory) {
    Buffer host = device->allocate_host(4096);
    ASSERT_NE(host.data(), nullptr);
    std::memset(host.data(), 1, host.bytes());
    std::thread([moved = std::move(host)]() mutable { moved = Buffer(); }).join();
}

TEST_F(Gpu, MemoryIsFreedByThreadsThatNeverUsedIt) {
    constexpr std::size_t kBytes = std::size_t{256} << 20;
    const std::uint64_t before = device->memory().free_bytes;
    Buffer buffer = device->allocate(kBytes);
    EXPECT_LE(device->memory().free_bytes, before - kBytes / 2);
    std::thread([moved = std::move(buffer)]() mutable { moved = Buffer(); }).join();
    EXPECT_GE(device->memory().free_bytes + kBytes / 2, before);
}

TEST_F(Gpu, SaysHowMuchIsMissingAndGoesOn) {
    const DeviceMemory memory = device->memory();
    EXPECT_LE(memory.free_bytes, memory.total_bytes);
    try {
        static_cast<void>(device->allocate(2 * memory.total_bytes));
        FAIL();
    } catch (const OutOfMemory& error) {
        EXPECT_EQ(error.asked, 2 * memory.total_bytes);
        EXPECT_GT(error.free, 0U);
    }
    cuda::check_launch("nothing of it sticks");
    EXPECT_EQ(read(counted(10)).back(), 9.0F);
}

TEST_F(Gpu, EventsAreDoneInOrderAndKeepTheDevicesTime) {
    const Buffer from = counted(1 << 22);
    const Buffer to = device->allocate(from.bytes());
    const auto start = stream->record();
    for (int i = 0; i < 50; ++i) {
        stream->copy(to.data(), from.data(), from.bytes());
    }
    const auto end = stream->record();
    static_cast<void>(end->done());
    cuda::check_launch("an event that is not done is no error");
    const auto other = device->create_stream();
    other->wait_for(*end);
    const auto behind = other->record();
    behind->wait();
    EXPECT_TRUE(end->done());
    EXPECT_TRUE(start->done());
    EXPECT_GT(end->seconds_since(*start), 0);
    EXPECT_LT(end->seconds_since(*start), 10);
}

TEST_F(Gpu, EventsAreUsedAgain) {
    for (int i = 0; i < 1000; ++i) {
        const auto event = stream->record();
        event->wait();
        EXPECT_TRUE(event->done());
    }
    // Of a stream that is gone.
    auto gone = device->create_stream();
    const auto event = gone->record();
    event->wait();
    gone.reset();
    EXPECT_TRUE(event->done());
}

TEST_F(Gpu, RecordingsDoTheWorkWhenTheyAreQueued) {
    const Buffer from = counted(100);
    const Buffer to = device->allocate(from.bytes());
    stream->fill_zero(to.data(), to.bytes());
    stream->synchronize();
    ASSERT_TRUE(stream->begin_recording());
    stream->copy(to.data(), from.data(), from.bytes());
    const auto recording = stream->end_recording();
    ASSERT_NE(recording, nullptr);
    EXPECT_EQ(read(to), std::vector<float>(100)) << "nothing was done yet";
    recording->queue();
    EXPECT_EQ(read(to), read(from));
    stream->fill_zero(from.data(), from.bytes());
    recording->queue();
    EXPECT_EQ(read(to), std::vector<float>(100)) << "the values of when it is queued";
}

TEST_F(Gpu, AStreamGoesOnAfterARecordingThatFailed) {
    ASSERT_TRUE(stream->begin_recording());
    EXPECT_THROW(stream->synchronize(), DeviceError);
    EXPECT_THROW(static_cast<void>(stream->end_recording()), DeviceError);
    cuda::check_launch("nothing of it sticks");
    EXPECT_EQ(read(counted(10)).back(), 9.0F);
}

}  // namespace
}  // namespace cohort

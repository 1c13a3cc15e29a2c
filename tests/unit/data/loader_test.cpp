#include "cohort/data/loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <set>
#include <thread>

#include "cohort/core/error.hpp"
#include "support/core/patience.hpp"
#include "support/data/memory_source.hpp"

namespace cohort {
namespace {

using test::MemorySource;
using test::set_info;

constexpr OrderOptions kOrder{.seed = 2, .window_chunks = 4};

std::shared_ptr<MemorySource> images(std::int64_t samples = 200, std::int64_t chunk = 16) {
    return std::make_shared<MemorySource>(set_info({3, 8, 8}, SampleType::kU8, samples, chunk));
}

LoaderOptions augmenting(int threads, int prefetch) {
    LoaderOptions options;
    options.augment = {.pad = 2, .flip = true, .seed = 6};
    options.threads = threads;
    options.prefetch = prefetch;
    options.order = kOrder;
    return options;
}

Lease lease_of(std::vector<std::int64_t> samples, std::uint64_t id = 1, std::uint32_t epoch = 0) {
    return {.id = id, .epoch = epoch, .position = 0, .samples = std::move(samples)};
}

/// Waits until so many chunks were read, and no more.
void wait_for_reads(const MemorySource& source, std::size_t reads) {
    const SteadyClock clock;
    const Clock::Seconds limit = clock.now() + test::kPatience;
    while (source.reads < static_cast<int>(reads) && clock.now() < limit) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(source.reads, static_cast<int>(reads));
}

/// Runs two epochs of leases of `batch` samples and returns every sample's pixels in order.
std::vector<std::vector<float>> all_pixels(const std::shared_ptr<MemorySource>& source,
                                           const LoaderOptions& options, std::int64_t batch) {
    Loader loader(source, options);
    LeaseLedger book(source->info(), kOrder, 2 * source->info().samples);
    std::vector<std::vector<float>> pixels;
    std::uint64_t expected_id = 1;
    for (int ahead = 0;;) {
        for (; ahead <= options.prefetch; ++ahead) {
            std::optional<Lease> lease = book.take(batch);
            if (!lease) {
                break;
            }
            loader.submit(std::move(*lease));
        }
        const std::optional<LoadedBatch> loaded = loader.next();
        if (!loaded) {
            break;
        }
        --ahead;
        EXPECT_EQ(loaded->lease().id, expected_id++);
        const auto elements = static_cast<std::size_t>(source->info().sample_elements());
        for (std::size_t i = 0; i < loaded->sample_ids().size(); ++i) {
            EXPECT_EQ(loaded->labels()[i], MemorySource::label(loaded->sample_ids()[i]));
            const auto sample = loaded->samples().subspan(i * elements, elements);
            pixels.emplace_back(sample.begin(), sample.end());
        }
    }
    return pixels;
}

/// What a device is to make of stored samples is what the transform makes of them on the CPU: the
/// kernels' test shows that. Here: everything is handed over, in the loader's own memory.
TEST(Loader, SamplesOfOneByteStayAsTheyAreStored) {
    const auto source = images();
    LoaderOptions options = augmenting(2, 3);
    options.stored = true;
    Loader loader(source, options);
    const SampleTransform transform(source->info(), options.augment);
    EXPECT_EQ(loader.peek(), nullptr) << "nothing was submitted";
    loader.submit(lease_of({7, 150, 7, 31}, 1, 2));
    loader.submit(lease_of({8}, 2, 2));
    while (loader.peek() == nullptr) {
        std::this_thread::yield();
    }
    EXPECT_EQ(loader.peek()->lease().id, 1U);
    const std::uint64_t serial = loader.peek()->serial();
    const std::optional<LoadedBatch> batch = loader.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->serial(), serial);
    EXPECT_TRUE(batch->samples().empty());
    const StoredSamples& stored = batch->stored();
    const std::vector<float> scales = transform.scales();
    EXPECT_EQ(stored.channels, 3);
    EXPECT_EQ(stored.elements, 192);
    EXPECT_TRUE(std::equal(scales.begin(), scales.end(), stored.scales));
    EXPECT_THAT(batch->sample_ids(), testing::ElementsAre(7, 150, 7, 31));
    for (std::size_t i = 0; i < 4; ++i) {
        const std::int64_t id = batch->sample_ids()[i];
        EXPECT_EQ(std::memcmp(stored.values + 192 * i, source->sample(id), 192), 0) << i;
        const ImageCrop expected = transform.crop_of(id, 2);
        EXPECT_EQ(stored.crops[i].down, expected.down);
        EXPECT_EQ(stored.crops[i].right, expected.right);
        EXPECT_EQ(stored.crops[i].mirrored, expected.mirrored);
        EXPECT_EQ(batch->labels()[i], MemorySource::label(id));
    }
    while (loader.peek() == nullptr) {
        std::this_thread::yield();
    }
    EXPECT_NE(loader.peek()->serial(), serial);
    EXPECT_EQ(loader.discard_submitted().size(), 1U);
    EXPECT_EQ(loader.peek(), nullptr) << "it was dropped";
}

TEST(Loader, EqualsTheTransformSampleBySample) {
    const auto source = images();
    const LoaderOptions options = augmenting(2, 3);
    const SampleTransform transform(source->info(), options.augment);
    Loader loader(source, options);
    const std::vector<std::int64_t> ids = {199, 0, 3, 3, 77, 16, 15};
    loader.submit(lease_of(ids, 42, 5));
    const std::optional<LoadedBatch> batch = loader.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->lease().id, 42U);
    EXPECT_EQ(batch->epoch(), 5U);
    EXPECT_EQ(batch->size(), 7);
    EXPECT_EQ(std::vector(batch->sample_ids().begin(), batch->sample_ids().end()), ids);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch->samples().data()) % 64, 0U);
    ASSERT_EQ(batch->samples().size(), 7U * 192);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        std::vector<float> expected(192);
        transform.apply(source->sample(ids[i]), ids[i], 5, expected.data());
        const auto got = batch->samples().subspan(i * 192, 192);
        EXPECT_EQ(std::vector(got.begin(), got.end()), expected) << i;
        EXPECT_EQ(batch->labels()[i], MemorySource::label(ids[i]));
    }
}

TEST(Loader, ThreadsPrefetchAndBatchSizeChangeNothing) {
    const auto expected = all_pixels(images(), augmenting(1, 1), 32);
    EXPECT_EQ(expected.size(), 400U);
    EXPECT_NE(expected[0], expected[200]);
    for (const int threads : {1, 2, 4}) {
        for (const int prefetch : {1, 3, 8}) {
            EXPECT_EQ(all_pixels(images(), augmenting(threads, prefetch), 7 * prefetch), expected);
        }
    }
}

TEST(Loader, ReadsEachChunkOncePerEpochAtMost) {
    const auto source = images(640, 16);  // 40 chunks in windows of 4
    all_pixels(source, augmenting(1, 2), 32);
    EXPECT_LE(source->reads, 2 * 40 + 8);
    const auto small = images(64, 16);  // one window: kept over the epochs
    all_pixels(small, augmenting(1, 2), 16);
    EXPECT_EQ(small->reads, 4);
}

TEST(Loader, ReadsTheNextWindowAhead) {
    const auto source = images(640, 16);
    Loader loader(source, augmenting(1, 1));
    LeaseLedger book(source->info(), kOrder);
    loader.submit(*book.take(16));
    ASSERT_TRUE(loader.next());
    // Without another lease: the rest of this window and the next one.
    wait_for_reads(*source, 8);
}

TEST(Loader, AReturnedLeaseDoesNotTurnReadingAheadBack) {
    const auto source = images(640, 16);
    const EpochOrder order(source->info(), kOrder, 0);
    const EpochOrder following(source->info(), kOrder, 1);
    // The chunks of the last window, those read ahead of it, and those of the first window.
    std::set<std::int64_t> chunks(order.window_chunks(9).begin(), order.window_chunks(9).end());
    chunks.insert(following.window_chunks(0).begin(), following.window_chunks(0).end());
    LeaseLedger book(source->info(), kOrder);
    Loader loader(source, augmenting(1, 1));
    const Lease first = *book.take(64);
    Lease last = *book.take(64);
    while (last.position < 9 * 64) {
        last = *book.take(64);
    }
    loader.submit(last);
    ASSERT_TRUE(loader.next());
    wait_for_reads(*source, chunks.size());
    chunks.insert(order.window_chunks(0).begin(), order.window_chunks(0).end());
    loader.submit(first);
    ASSERT_TRUE(loader.next());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    wait_for_reads(*source, chunks.size());  // and not the second window's
}

TEST(Loader, BatchesLargerThanTheCacheWork) {
    LoaderOptions options = augmenting(1, 2);
    options.cache_bytes = 1;
    const auto source = images(200, 4);
    EXPECT_EQ(all_pixels(source, options, 100), all_pixels(images(200, 4), augmenting(2, 3), 100));
}

TEST(Loader, NothingSubmittedIsNoBatch) {
    Loader loader(images(), augmenting(1, 2));
    EXPECT_FALSE(loader.next());
    loader.submit(lease_of({1}));
    EXPECT_TRUE(loader.next());
    EXPECT_FALSE(loader.next());
}

TEST(Loader, MemoryIsRecycledAndOutlivesTheLoader) {
    std::atomic<int> allocations{0};
    LoaderOptions options = augmenting(1, 2);
    options.allocator = [&](std::size_t bytes) {
        ++allocations;
        return allocate_aligned(bytes);
    };
    std::optional<LoadedBatch> last;
    {
        Loader loader(images(), options);
        for (std::int64_t i = 0; i < 50; ++i) {
            loader.submit(lease_of({i, i + 1, i + 2}));
            last = loader.next();
        }
        EXPECT_LE(allocations, 4);
        loader.submit(lease_of({5}));
    }
    EXPECT_EQ(last->sample_ids()[2], 51);
    EXPECT_EQ(last->labels()[2], 1);
    EXPECT_EQ(last->samples().size(), 3U * 192);
}

TEST(Loader, ReadErrorsReachTheRightLeaseAndOnlyThat) {
    const auto source = images();
    std::atomic<bool> broken{true};
    source->before_read = [&](std::int64_t chunk) {
        if (chunk == 2 && broken) {
            fail<FileError>({.where = "memory", .what = "chunk 2 is torn"});
        }
    };
    Loader loader(source, augmenting(2, 4));
    loader.submit(lease_of({0}, 1));
    loader.submit(lease_of({40}, 2));
    loader.submit(lease_of({50}, 3));
    EXPECT_EQ(loader.next()->lease().id, 1U);
    EXPECT_THAT([&] { static_cast<void>(loader.next()); },
                testing::ThrowsMessage<FileError>(testing::HasSubstr("torn")));
    EXPECT_EQ(loader.next()->lease().id, 3U);
    broken = false;
    loader.submit(lease_of({40}, 4));
    EXPECT_EQ(loader.next()->lease().id, 4U);
}

TEST(Loader, WorkerErrorsReachNext) {
    LoaderOptions options = augmenting(1, 1);
    options.allocator = [](std::size_t) -> std::shared_ptr<void> { throw std::bad_alloc(); };
    Loader loader(images(), options);
    loader.submit(lease_of({0}));
    EXPECT_THROW(static_cast<void>(loader.next()), std::bad_alloc);
}

/// A source that answers only after release().
class Gate {
public:
    void wait() { open_.get_future().wait(); }
    void release() { open_.set_value(); }

private:
    std::promise<void> open_;
};

TEST(Loader, StopEndsAWaitOnASlowSource) {
    const auto source = images();
    Gate gate;
    std::atomic<bool> once{false};
    source->before_read = [&](std::int64_t) {
        if (!once.exchange(true)) {
            gate.wait();
        }
    };
    Loader loader(source, augmenting(2, 2));
    loader.submit(lease_of({0}, 1));
    loader.submit(lease_of({20}, 2));
    std::thread waiter([&] { EXPECT_FALSE(loader.next()); });
    loader.stop();
    waiter.join();  // although the source has not answered
    EXPECT_EQ(loader.discard_submitted().size(), 2U);
    gate.release();
}

TEST(Loader, DiscardGivesBackWhatWasNotHandedOut) {
    const auto source = images();
    Loader loader(source, augmenting(2, 2));
    for (std::uint64_t id = 1; id <= 6; ++id) {
        loader.submit(lease_of({static_cast<std::int64_t>(id)}, id));
    }
    EXPECT_EQ(loader.next()->lease().id, 1U);
    const std::vector<Lease> left = loader.discard_submitted();
    ASSERT_EQ(left.size(), 5U);
    EXPECT_EQ(left.front().id, 2U);
    EXPECT_EQ(left.back().id, 6U);
    EXPECT_FALSE(loader.next());
    loader.submit(lease_of({9}, 7));
    EXPECT_EQ(loader.next()->lease().id, 7U);
}

TEST(Loader, DestructionInTheMiddleOfWorkEnds) {
    for (int round = 0; round < 30; ++round) {
        Loader loader(images(), augmenting(3, 4));
        for (std::int64_t i = 0; i < round; ++i) {
            loader.submit(lease_of({i, 100 + i}));
        }
        if (round % 3 == 1) {
            static_cast<void>(loader.next());
        }
    }
}

TEST(Loader, SubmitFromAnotherThreadWhileWaiting) {
    const auto source = images();
    Loader loader(source, augmenting(2, 2));
    std::thread submitter([&] {
        for (std::uint64_t id = 1; id <= 200; ++id) {
            loader.submit(lease_of({static_cast<std::int64_t>(id - 1)}, id));
        }
    });
    std::uint64_t expected = 1;
    while (expected <= 200) {
        if (const std::optional<LoadedBatch> batch = loader.next()) {
            EXPECT_EQ(batch->lease().id, expected++);
        } else {
            std::this_thread::yield();
        }
    }
    submitter.join();
}

TEST(Loader, RefusesBadLeasesAndOptions) {
    Loader loader(images(), augmenting(1, 1));
    EXPECT_THROW(loader.submit(lease_of({})), UsageError);
    EXPECT_THROW(loader.submit(lease_of({200})), UsageError);
    EXPECT_THROW(loader.submit(lease_of({-1})), UsageError);
    EXPECT_THROW(Loader(images(), augmenting(0, 1)), UsageError);
    EXPECT_THROW(Loader(images(), augmenting(1, 0)), UsageError);
}

/// A source that stands still until told to go on.
struct Stall {
    explicit Stall(test::MemorySource& source) {
        source.before_read = [gone = gate.get_future().share()](std::int64_t) { gone.wait(); };
    }
    std::promise<void> gate;
};

TEST(Loader, StalledInputIsNamedAndCanBeGivenUp) {
    const auto source = images();
    Stall stall(*source);
    LoaderOptions options = augmenting(1, 1);
    options.stall_limit_s = 0.02;
    Loader loader(source, options);
    loader.submit(lease_of({5}, 7));
    int asked = 0;
    testing::internal::CaptureStderr();
    EXPECT_FALSE(loader.next([&] { return ++asked >= 3; }));
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(asked, 3);
    EXPECT_NE(log.find("chunk 0 of memory"), std::string::npos) << log;
    EXPECT_NE(log.find(" s: "), std::string::npos) << log;
    stall.gate.set_value();
    const std::optional<LoadedBatch> batch = loader.next();
    ASSERT_TRUE(batch) << "the lease stayed submitted";
    EXPECT_EQ(batch->lease().id, 7U);
}

TEST(Loader, InputInTimeWarnsOfNothing) {
    Loader loader(images(), augmenting(1, 1));
    loader.submit(lease_of({5}, 7));
    testing::internal::CaptureStderr();
    EXPECT_TRUE(loader.next([] { return false; }));
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(ForEachBatch, StalledInputCanBeGivenUp) {
    const auto source = images();
    Stall stall(*source);
    Loader loader(source, {});
    EXPECT_FALSE(for_each_batch(
        loader, 10, [](const LoadedBatch&) {}, [] { return true; }));
    stall.gate.set_value();
    int batches = 0;
    EXPECT_TRUE(for_each_batch(loader, 10, [&](const LoadedBatch&) { ++batches; }));
    EXPECT_EQ(batches, 20);
}

TEST(ForEachBatch, CoversTheSetInOrderAgainAndAgain) {
    const auto source = images(203, 16);
    LoaderOptions options;
    options.prefetch = 2;
    Loader loader(source, options);
    const SampleTransform plain(source->info(), {});
    for (int pass = 0; pass < 3; ++pass) {
        std::int64_t expected = 0;
        EXPECT_TRUE(for_each_batch(loader, 50, [&](const LoadedBatch& batch) {
            EXPECT_EQ(batch.size(), expected == 200 ? 3 : 50);
            for (std::size_t i = 0; i < batch.sample_ids().size(); ++i) {
                EXPECT_EQ(batch.sample_ids()[i], expected);
                std::vector<float> pixels(192);
                plain.apply(source->sample(expected), expected, 0, pixels.data());
                EXPECT_TRUE(
                    std::equal(pixels.begin(), pixels.end(),
                               batch.samples().begin() + static_cast<std::ptrdiff_t>(i * 192)));
                ++expected;
            }
        }));
        EXPECT_EQ(expected, 203);
    }
    EXPECT_EQ(source->reads, 13);  // kept from the first pass on
}

TEST(ForEachBatch, ErrorsLeaveTheLoaderUsable) {
    Loader loader(images(), {});
    EXPECT_THROW(static_cast<void>(for_each_batch(loader, 0, {})), UsageError);
    const auto stop = [](const LoadedBatch&) { throw std::runtime_error("enough"); };
    EXPECT_THROW(static_cast<void>(for_each_batch(loader, 10, stop)), std::runtime_error);
    EXPECT_FALSE(loader.next());
    int batches = 0;
    EXPECT_TRUE(for_each_batch(loader, 10, [&](const LoadedBatch&) { ++batches; }));
    EXPECT_EQ(batches, 20);
    loader.stop();
    EXPECT_FALSE(for_each_batch(loader, 10, [](const LoadedBatch&) {}));
}

}  // namespace
}  // namespace cohort

// The parts of the ring exchange that need no other rank: sums, buckets, ranges, and the memory
// that a node's ranks share, with threads in the place of ranks.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "cohort/core/error.hpp"
#include "comm/allreduce/all_reduce_sum.hpp"
#include "comm/allreduce/buckets.hpp"
#include "comm/allreduce/own/node_reducer.hpp"
#include "comm/transfer/node_memory.hpp"

namespace cohort {
namespace {

std::vector<std::vector<float>> rough_buffers(std::size_t n, std::size_t count) {
    std::mt19937 random(static_cast<unsigned>(n * 1000 + count));
    std::uniform_real_distribution<float> value(-1.0F, 1.0F);
    std::vector<std::vector<float>> buffers(n, std::vector<float>(count));
    for (auto& buffer : buffers) {
        for (float& x : buffer) {
            x = std::ldexp(value(random), static_cast<int>(random() % 20));
        }
    }
    return buffers;
}

std::vector<float> serial(const std::vector<std::vector<float>>& buffers) {
    std::vector<float> sum = buffers[0];
    for (std::size_t j = 1; j < buffers.size(); ++j) {
        for (std::size_t i = 0; i < sum.size(); ++i) {
            sum[i] += buffers[j][i];
        }
    }
    return sum;
}

TEST(AllReduceSum, EveryNumberOfBuffersHasTheBitsOfTheSerialSum) {
    for (const std::size_t n : {1U, 2U, 3U, 4U, 5U, 9U}) {
        for (const std::size_t count : {0U, 1U, 15U, 2048U, 2049U, 5000U}) {
            auto buffers = rough_buffers(n, count);
            const std::vector<float> want = serial(buffers);
            std::vector<const float*> inputs;
            std::vector<float*> outputs;
            for (auto& buffer : buffers) {
                inputs.push_back(buffer.data());
                outputs.push_back(buffer.data());
            }
            std::vector<float> out(count);
            sum_into(out.data(), inputs, count);
            EXPECT_EQ(out, want) << n << " buffers of " << count;
            sum_into_all(outputs, count);
            for (const auto& buffer : buffers) {
                EXPECT_EQ(buffer, want) << n << " buffers of " << count;
            }
        }
    }
}

TEST(AllReduceSum, TheOutputMayBeAnInput) {
    auto buffers = rough_buffers(3, 5000);
    const std::vector<float> want = serial(buffers);
    const std::vector<const float*> inputs{buffers[0].data(), buffers[1].data(), buffers[2].data()};
    sum_into(buffers[1].data(), inputs, 5000);
    EXPECT_EQ(buffers[1], want);
}

TEST(RingBuckets, CoverTheBufferFromItsEnd) {
    for (const std::int64_t floats : {1, 15, 16, 17, 1000, 4096, 4097}) {
        for (const std::int64_t bytes : {1, 64, 100, 4096, 1 << 20}) {
            const Buckets buckets(floats, bytes);
            std::int64_t end = floats;
            for (std::int64_t bucket = 0; bucket < buckets.count(); ++bucket) {
                const FloatRange range = buckets.range(bucket);
                EXPECT_EQ(range.end, end);
                EXPECT_GT(range.size(), 0);
                EXPECT_EQ(range.begin % 16, 0);
                EXPECT_EQ(buckets.behind(range.begin), bucket + 1);
                EXPECT_EQ(buckets.behind(range.begin + 1), bucket);
                end = range.begin;
            }
            EXPECT_EQ(end, 0);
        }
    }
}

TEST(RingReadyRanges, TheFrontierIsWhatIsFinalToTheEnd) {
    ReadyRanges ranges(100);
    ranges.add(40, 60);
    ranges.add(0, 10);
    EXPECT_EQ(ranges.frontier(), 100);
    ranges.add(80, 100);
    EXPECT_EQ(ranges.frontier(), 80);
    ranges.add(55, 80);  // overlaps what is known
    EXPECT_EQ(ranges.frontier(), 40);
    ranges.add(30, 30);
    EXPECT_EQ(ranges.frontier(), 40);
    ranges.add(10, 40);
    EXPECT_EQ(ranges.frontier(), 0);
    ranges.clear();
    EXPECT_EQ(ranges.frontier(), 100);
    EXPECT_THROW(ranges.add(-1, 5), UsageError);
    EXPECT_THROW(ranges.add(90, 101), UsageError);
}

TEST(NodeMemory, IsOneAndTheSameThroughItsDescriptor) {
    NodeMemory first = NodeMemory::create(1 << 16);
    const NodeMemory second = NodeMemory::open(::getpid(), first.descriptor(), 1 << 16);
    first.reserve(0, 1 << 16);
    first.close_descriptor();
    first.data()[1000] = std::byte{42};
    EXPECT_EQ(second.data()[1000], std::byte{42});
    EXPECT_THROW(static_cast<void>(NodeMemory::open(::getpid(), 9999, 64)), DeviceError);
}

TEST(NodeMemory, SaysWhatIsMissing) {
    EXPECT_THAT([&] { static_cast<void>(NodeMemory::create(std::size_t{1} << 50)); },
                testing::ThrowsMessage<DeviceError>(testing::HasSubstr("are needed")));
}

/// Rounds on threads, each member with a helper as its communication thread is one.
class NodeRounds {
public:
    NodeRounds(int members, std::int64_t floats, std::int64_t bucket_bytes) {
        NodeShape shape;
        shape.members = members;
        for (int member = 0; member < members; ++member) {
            shape.local.push_back(member);
        }
        shape.buckets = Buckets(floats, bucket_bytes);
        memory_ = NodeMemory::create(NodeLayout(shape).bytes);
        for (int member = 0; member < members; ++member) {
            shape.self = member;
            parts_.push_back(std::make_unique<NodeReducer>(memory_.data(), shape));
        }
    }

    void run(std::uint64_t rounds) {
        std::atomic<bool> over{false};
        std::atomic<std::uint64_t> newest{1};
        std::vector<std::thread> helpers;
        std::vector<std::thread> members;
        for (auto& part : parts_) {
            helpers.emplace_back([&over, &newest, &part] {
                NodeReducer::Cursor cursor;
                while (!over.load()) {
                    if (!part->work(cursor, newest.load(), 2)) {
                        std::this_thread::sleep_for(std::chrono::microseconds(20));
                    }
                }
            });
            members.emplace_back([&newest, &part, rounds] {
                for (std::uint64_t ordinal = 1; ordinal <= rounds; ++ordinal) {
                    newest.store(ordinal);
                    one_round(*part, ordinal);
                }
            });
        }
        for (std::thread& member : members) {
            member.join();
        }
        over.store(true);
        for (std::thread& helper : helpers) {
            helper.join();
        }
    }

private:
    static float value(int member, std::int64_t i, std::uint64_t ordinal) {
        return static_cast<float>((i + member * 5 + static_cast<std::int64_t>(ordinal)) % 23);
    }

    static void one_round(NodeReducer& part, std::uint64_t ordinal) {
        const NodeShape& shape = part.shape();
        float* buffer = part.buffer(shape.self, ordinal);
        for (std::int64_t i = 0; i < shape.buckets.floats; ++i) {
            buffer[i] = value(shape.self, i, ordinal);
        }
        const std::int64_t count = shape.buckets.count();
        const std::int64_t half = count / 2;
        part.buckets().arrive(ordinal, 0, half);
        part.submit(ordinal, ordinal + 100, pack_summary(shape.self));
        part.buckets().arrive(ordinal, half, count);
        part.progress().ring_bell();
        NodeReducer::Cursor cursor;
        const std::atomic<bool> whole{false};  // not broken
        while (!part.progress().complete(ordinal)) {
            if (!part.work(cursor, ordinal, 1 << 20)) {
                part.sleep(cursor, ordinal, whole);
            }
        }
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < shape.buckets.floats; ++i) {
            float sum = 0;
            for (int member = 0; member < shape.members; ++member) {
                sum += value(member, i, ordinal);
            }
            wrong += buffer[i] == sum ? 0 : 1;
        }
        EXPECT_EQ(wrong, 0);
        for (int member = 0; member < shape.members; ++member) {
            EXPECT_EQ(unpack_summary<int>(part.summaries().summary(ordinal, member)), member);
            EXPECT_EQ(part.summaries().round_of(ordinal, member), ordinal + 100);
        }
    }

    NodeMemory memory_;
    std::vector<std::unique_ptr<NodeReducer>> parts_;
};

TEST(RingNode, NobodyLosesABlockOrAWakeUp) {
    for (const int members : {2, 3, 5}) {
        NodeRounds(members, 3000, 1024).run(200);
        NodeRounds(members, 100'000, 200'000).run(20);
        NodeRounds(members, 1, 64).run(500);
    }
}

}  // namespace
}  // namespace cohort

// All-reduces whose sums a library makes in device memory: kNccl.
//
// Set-up: 1. the first member names a communicator, all members tell one another the place of
//            their device;
//         2. all members begin to join, without blocking, and say whether they could: nobody waits
//            for a member that has not begun;
//         3. all members wait until the communicator is made, and say so. A member that cannot
//            join, or waits for longer than the stall limit, aborts, so that the others' library
//            notices, and no member gets an all-reduce.
// A round: 1. parts become final in the order of the member's stream: the stream of sums waits for
//             an event of it, then the sums up to there are queued, each of as many buckets as the
//             library's pieces hold;
//          2. summaries go through the host, in an all-reduce of one float;
//          3. the round is over when the summaries are received and the device has done its sums.
//             The loss of a member leaves the devices of the others waiting: they abort the
//             communicator.
// Cost: the library's; memory: two buffers on the device.
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "cohort/core/clock.hpp"
#include "comm/allreduce/bucket_all_reduce.hpp"
#include "comm/allreduce/nccl/device_sums.hpp"
#include "comm/allreduce/set_up.hpp"

namespace cohort {
namespace {

constexpr std::chrono::microseconds kPause{50};
/// How long after a sum was requested the thread looks, without sleeping, whether it is queued.
constexpr std::chrono::milliseconds kDevicePolling{2};

/// Of one float: it carries the summaries.
std::unique_ptr<AllReduce> make_summaries(AllReduceSetting setting) {
    setting.buckets.floats = 1;
    return setting.members.size() == 1 ? make_solo_all_reduce(1)
                                       : make_shared_all_reduce(setting, AllReduceAlgorithm::kRing);
}

class DeviceAllReduce final : public BucketAllReduce {
public:
    DeviceAllReduce(const AllReduceSetting& setting, Device& device, Stream& stream,
                    DeviceSumsLibrary& library)
        : BucketAllReduce(setting.buckets),
          setting_(setting),
          stream_(stream),
          at_a_time_(std::max<std::int64_t>(
              1, library.piece_bytes() /
                     (setting.buckets.size * static_cast<std::int64_t>(sizeof(float))))) {
        std::string error;
        std::string id;
        std::string place;
        try {
            own_ = library.make_stream(device);
            const auto bytes = static_cast<std::size_t>(setting_.buckets.floats) * sizeof(float);
            for (Buffer& buffer : buffers_) {
                buffer = library.allocate(device, bytes);
            }
            place = library.place(device);
            id = setting_.self == 0 ? library.new_id() : "";
        } catch (const DeviceError& failure) {
            error = failure.what();
        }
        id = meet(id, place, error);
        join(id, device, library);
        for (const Buffer& buffer : buffers_) {
            sums_->register_buffer(buffer.data(), buffer.bytes());
        }
        summaries_ = make_summaries(setting_);
    }

    ~DeviceAllReduce() override {
        if (!over_ || setting_.lost_member()) {
            break_up();  // not all of the others destroy theirs
        }
    }

    [[nodiscard]] AllReduceAlgorithm algorithm() const noexcept override {
        return AllReduceAlgorithm::kNccl;
    }

private:
    float* start(std::uint64_t ordinal) override {
        over_ = false;
        arrived_ = 0;
        posted_ = 0;
        buffer_ = buffers_[ordinal % 2].floats();
        static_cast<void>(summaries_->begin(round()));
        return buffer_;
    }

    void arrive(std::int64_t buckets) override {
        own_->wait_for(*stream_.record());
        arrived_ = buckets;
        static_cast<void>(post());
    }

    void submit(const SummaryBytes& summary) override {
        arrive(buckets().count());
        summaries_->finish(summary);
    }

    std::optional<std::vector<SummaryBytes>> complete() override {
        auto summaries = summaries_->wait();
        if (!summaries || !wait_for_sums()) {
            break_up();
            return std::nullopt;
        }
        over_ = true;
        return summaries;
    }

    /// The first record of all members. @return the id
    std::string meet(const std::string& id, const std::string& place, const std::string& error) {
        SetUpRecord own = first_record(setting_);
        own.set_id(id);
        own.set_place(place);
        own.set_error(error);
        const std::vector<SetUpRecord> records = gather_checked(setting_, own);
        for (std::size_t i = 0; i < records.size(); ++i) {
            for (std::size_t j = 0; j < i; ++j) {
                if (share_place(setting_, records, i, j)) {
                    refuse_place(records[i].place.data(), setting_.members[j], setting_.members[i]);
                }
            }
        }
        return {records[0].id.begin(), records[0].id.end()};
    }

    [[noreturn]] void refuse_place(const char* place, int first, int second) const {
        const RankMap& map = setting_.comm.network.map();
        fail<UsageError>(
            {.where = "--all-reduce nccl",
             .what = "NCCL cannot connect two ranks on one GPU",
             .expected = "a GPU for every member",
             .got = map.describe(first) + " and " + map.describe(second) + " on " + place,
             .hint = "--all-reduce auto, or one rank per GPU"});
    }

    void join(const std::string& id, Device& device, DeviceSumsLibrary& library) {
        const auto members = static_cast<int>(setting_.members.size());
        try {
            together([&] { sums_ = library.join(id, members, setting_.self, device); });
            together([&] { wait_until_made(); });
        } catch (...) {
            break_up();
            throw;
        }
    }

    /// A step of all members. Errors: that of the member that failed first, the same on all
    /// members.
    template <class Step>
    void together(const Step& step) {
        const SteadyClock clock;
        const Clock::Seconds start = clock.now();
        SetUpRecord own;
        try {
            step();
        } catch (const DeviceError& failure) {
            own.seconds = (clock.now() - start).count();
            own.set_error(failure.what());
            break_up();
        }
        gather_checked(setting_, own);
    }

    /// Errors: DeviceError, RingBroken.
    void wait_until_made() {
        const SteadyClock clock;
        const Clock::Seconds limit = setting_.comm.operations.limit();
        const auto named =
            setting_.comm.operations.begin("ring of GPUs", 0, [this] { return setting_.others(); });
        for (const Clock::Seconds start = clock.now();;) {
            const DeviceSums::State state = sums_->state();
            if (state == DeviceSums::State::kReady) {
                return;
            }
            if (setting_.lost_member()) {
                setting_.fail_broken();
            }
            if (state == DeviceSums::State::kFailed) {
                fail<DeviceError>({.where = "nccl", .what = sums_->error()});
            }
            if (clock.now() - start > limit) {
                fail<DeviceError>({.where = "nccl",
                                   .what = "making a communicator takes too long",
                                   .expected = std::to_string(limit.count()) + " s",
                                   .hint = "--all-reduce ring, or a larger --stall-limit-s"});
            }
            std::this_thread::sleep_for(kPause);
        }
    }

    /// The library queues a sum by itself, shortly after the call: only then may the next one
    /// follow. The first sums take long, because connections are made: they are left to later
    /// calls, which look once.
    [[nodiscard]] bool takes_more() {
        while (sums_->state() == DeviceSums::State::kWorking) {
            if (std::chrono::steady_clock::now() > look_until_) {
                return false;
            }
            sched_yield();
        }
        return sums_->state() == DeviceSums::State::kReady;
    }

    /// Queues the buckets that have arrived, as far as the communicator takes them. The same sums
    /// on all members, whatever has arrived when. True: all of the buffer is queued.
    bool post() {
        for (std::int64_t end = 0; posted_ < arrived_; posted_ = end) {
            end = std::min(buckets().count(), posted_ + at_a_time_);
            if (end > arrived_ || !takes_more()) {
                break;
            }
            const FloatRange range{buckets().range(end - 1).begin, buckets().range(posted_).end};
            sums_->all_reduce(buffer_ + range.begin, range.size(), *own_);
            look_until_ = std::chrono::steady_clock::now() + kDevicePolling;
            setting_.count_traffic(range);
        }
        return posted_ == buckets().count() && takes_more();
    }

    /// False: a member was lost.
    bool wait_for_sums() {
        const SteadyClock clock;
        std::unique_ptr<Event> done;
        std::optional<OperationBoard::Wait> named;
        std::optional<Clock::Seconds> failed_at;
        ShortPatience patience;
        while (true) {
            if (done == nullptr && post()) {
                done = own_->record();
            }
            if (done != nullptr && done->done()) {
                return true;
            }
            if (setting_.lost_member()) {
                return false;
            }
            if (sums_->state() == DeviceSums::State::kFailed) {
                // Mostly because a member is lost: the job will know of it soon.
                failed_at = failed_at.value_or(clock.now());
                if (clock.now() - *failed_at > setting_.comm.operations.limit()) {
                    fail<DeviceError>({.where = "nccl", .what = sums_->error()});
                }
            }
            if (!patience.look_again()) {
                if (!named) {
                    named = setting_.comm.operations.begin("ring sums", round(),
                                                           [this] { return setting_.others(); });
                }
                std::this_thread::sleep_for(kPause);
            }
        }
    }

    void break_up() noexcept {
        if (sums_ != nullptr) {
            sums_->abort();
        }
        over_ = true;
    }

    const AllReduceSetting setting_;
    Stream& stream_;                ///< in whose order the buffer becomes final
    const std::int64_t at_a_time_;  ///< buckets of a sum
    std::array<Buffer, 2> buffers_;
    std::unique_ptr<Stream> own_;  ///< of the sums
    std::unique_ptr<DeviceSums> sums_;
    std::unique_ptr<AllReduce> summaries_;
    float* buffer_ = nullptr;
    std::int64_t arrived_ = 0;  ///< buckets
    std::int64_t posted_ = 0;   ///< buckets
    std::chrono::steady_clock::time_point look_until_;
    bool over_ = true;
};

}  // namespace

std::unique_ptr<AllReduce> make_device_all_reduce(const AllReduceSetting& setting, Device& device,
                                                  Stream& stream, DeviceSumsLibrary& library) {
    return std::make_unique<DeviceAllReduce>(setting, device, stream, library);
}

std::unique_ptr<AllReduce> make_nccl_all_reduce(const AllReduceSetting& setting, Device& device,
                                                Stream& stream) {
    return make_device_all_reduce(setting, device, stream, nccl_library());
}

NcclPlace nccl_place(const Device* device, const Stream* stream) {
    if (device == nullptr || stream == nullptr || device->kind() != DeviceKind::kCuda) {
        return {};
    }
    try {
        return {.place = nccl_library().place(*device), .error = ""};
    } catch (const DeviceError& error) {  // all algorithms but NCCL still work
        return {.place = "", .error = error.what()};
    }
}

}  // namespace cohort

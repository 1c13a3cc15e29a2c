// Rings whose sums a library makes in device memory: kNccl.
//
// Set-up: 1. the first member names a communicator, all tell one another where their device is;
//         2. all begin to join, without blocking, and say whether they could: nobody waits for one
//            that has not begun;
//         3. all wait until it is made, and say so. Who cannot, or waits for longer than the stall
//            limit, aborts, so that the others' library notices, and nobody gets a ring.
// A round: 1. parts become final in the order of the member's stream: an event of it is waited for
//             by the stream of sums, then the buckets up to there are queued;
//          2. tails go through the host, in a ring of one float;
//          3. the round is over when the tails are here and the device has done its sums. A member
//             that is lost meanwhile leaves the others' devices waiting: they abort the
//             communicator.
// Cost: the library's; memory: two buffers on the device.
#include <sched.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "cohort/core/clock.hpp"
#include "comm/allreduce/device_sums.hpp"
#include "comm/allreduce/ring_engine.hpp"
#include "comm/allreduce/ring_set_up.hpp"
#include "comm/allreduce/ring_wait.hpp"

namespace cohort {
namespace {

constexpr std::chrono::microseconds kPause{50};
/// How long after a sum was asked for its queueing is looked for without a sleep.
constexpr std::chrono::milliseconds kDevicePolling{2};

RingSetting of_one_float(const RingSetting& setting) {
    RingSetting tails = setting;
    tails.buckets.floats = 1;
    return tails;
}

std::unique_ptr<RingEngine> make_tails(const RingSetting& setting) {
    return setting.members.size() == 1 ? make_solo_engine(setting.buckets)
                                       : make_shared_engine(setting, AllReduceAlgorithm::kRing);
}

class DeviceSumsEngine final : public RingEngine {
public:
    DeviceSumsEngine(const RingSetting& setting, Device& device, Stream& stream,
                     DeviceSumsLibrary& library)
        : setting_(setting), stream_(stream) {
        std::string error;
        std::string id;
        std::string place;
        try {
            own_ = device.create_stream();
            const auto bytes = static_cast<std::size_t>(setting_.buckets.floats) * sizeof(float);
            for (Buffer& buffer : buffers_) {
                buffer = device.allocate(bytes);
            }
            place = library.place(device);
            id = setting_.self == 0 ? library.new_id() : "";
        } catch (const DeviceError& failure) {
            error = failure.what();
        }
        id = meet(id, place, error);
        join(id, device, library);
        tails_ = make_tails(of_one_float(setting_));
    }

    ~DeviceSumsEngine() override {
        if (!over_ || setting_.lost_member()) {
            break_up();  // not all of the others let go
        }
    }

    float* begin(std::uint64_t ordinal, std::uint64_t round) override {
        over_ = false;
        round_ = round;
        arrived_ = 0;
        posted_ = 0;
        buffer_ = buffers_[ordinal % 2].floats();
        static_cast<void>(tails_->begin(ordinal, round));
        return buffer_;
    }

    void arrive(std::int64_t buckets) override {
        own_->wait_for(*stream_.record());
        arrived_ = buckets;
        static_cast<void>(post());
    }

    void hand_in(const RingTail& tail) override {
        arrive(setting_.buckets.count());
        tails_->hand_in(tail);
    }

    std::optional<std::vector<RingTail>> wait() override {
        auto tails = tails_->wait();
        if (!tails || !wait_for_sums()) {
            break_up();
            return std::nullopt;
        }
        over_ = true;
        return tails;
    }

private:
    /// All members' first words. @return the id
    std::string meet(const std::string& id, const std::string& place, const std::string& error) {
        SetUpRecord own;
        own.floats = setting_.buckets.floats;
        own.bucket_floats = setting_.buckets.size;
        own.algorithm = static_cast<std::int64_t>(setting_.asked);
        own.set_id(id);
        own.set_place(place);
        own.set_error(error.c_str());
        const std::vector<SetUpRecord> records = gather_records(setting_, own);
        check_records(setting_.thread.map(), setting_.members, records);
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
        const RankMap& map = setting_.thread.map();
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

    /// A step of all members. Errors: that of the member that failed first, the same on all.
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
        check_records(setting_.thread.map(), setting_.members, gather_records(setting_, own));
    }

    /// Errors: DeviceError, RingBroken.
    void wait_until_made() {
        const SteadyClock clock;
        const Clock::Seconds limit = setting_.thread.operations().limit();
        const auto named =
            setting_.thread.operations().begin("ring of GPUs", 0, [this] { return others(); });
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

    /// The library queues by itself, shortly after the call: only then may more follow. The first
    /// sums of a ring take long, because connections are made: they are left to later calls, which
    /// look once.
    [[nodiscard]] bool ready() {
        while (sums_->state() == DeviceSums::State::kWorking) {
            if (std::chrono::steady_clock::now() > look_until_) {
                return false;
            }
            sched_yield();
        }
        return sums_->state() == DeviceSums::State::kReady;
    }

    /// Queues what has arrived, as far as the communicator takes it. True: all of the buffer is
    /// queued.
    bool post() {
        while (posted_ < arrived_ && ready()) {
            const FloatRange range = setting_.buckets.range(posted_);
            sums_->all_reduce(buffer_ + range.begin, range.size(), *own_);
            look_until_ = std::chrono::steady_clock::now() + kDevicePolling;
            ++posted_;
            const std::uint64_t bytes = traffic_of(setting_, range);
            const std::uint64_t messages = 2 * (setting_.members.size() - 1);
            setting_.thread.count_sent(bytes, messages);  // what a ring would move
            setting_.thread.count_received(bytes, messages);
        }
        return posted_ == setting_.buckets.count() && ready();
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
                // Mostly because a member is gone: the job will know of it soon.
                failed_at = failed_at.value_or(clock.now());
                if (clock.now() - *failed_at > setting_.thread.operations().limit()) {
                    fail<DeviceError>({.where = "nccl", .what = sums_->error()});
                }
            }
            if (!patience.look_again()) {
                if (!named) {
                    named = setting_.thread.operations().begin("ring sums", round_,
                                                               [this] { return others(); });
                }
                std::this_thread::sleep_for(kPause);
            }
        }
    }

    [[nodiscard]] std::vector<int> others() const {
        std::vector<int> ranks = setting_.members;
        std::erase(ranks, setting_.thread.rank());
        return ranks;
    }

    void break_up() noexcept {
        if (sums_ != nullptr) {
            sums_->abort();
        }
        over_ = true;
    }

    RingSetting setting_;
    Stream& stream_;  ///< in whose order the buffer becomes final
    std::array<Buffer, 2> buffers_;
    std::unique_ptr<Stream> own_;  ///< of the sums
    std::unique_ptr<DeviceSums> sums_;
    std::unique_ptr<RingEngine> tails_;
    float* buffer_ = nullptr;
    std::uint64_t round_ = 0;
    std::int64_t arrived_ = 0;  ///< buckets
    std::int64_t posted_ = 0;   ///< buckets
    std::chrono::steady_clock::time_point look_until_;
    bool over_ = true;
};

}  // namespace

std::unique_ptr<RingEngine> make_device_sums_engine(const RingSetting& setting, Device& device,
                                                    Stream& stream, DeviceSumsLibrary& library) {
    return std::make_unique<DeviceSumsEngine>(setting, device, stream, library);
}

std::unique_ptr<RingEngine> make_nccl_engine(const RingSetting& setting, Device& device,
                                             Stream& stream) {
    return make_device_sums_engine(setting, device, stream, nccl_library());
}

NcclPlace nccl_place(const Device* device, const Stream* stream) {
    if (device == nullptr || stream == nullptr || device->kind() != DeviceKind::kCuda) {
        return {};
    }
    try {
        return {.place = nccl_library().place(*device), .error = ""};
    } catch (const DeviceError& error) {  // without NCCL the others are as good as ever
        return {.place = "", .error = error.what()};
    }
}

}  // namespace cohort

#pragma once

#include <cuda_runtime_api.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/tensor/cuda.hpp"

// Runs CUDA kernels on the CPU, thread by thread, so that a test sees their arithmetic on a machine
// without a GPU. tests/tools/cuda_on_cpu.py makes a C++ file of a .cu that includes this first.
//
// The threads of a block are contexts that take turns; each runs until __syncthreads() or a
// shuffle, where it waits for the others. Every other block begins each turn with its last thread
// instead of its first: a missing barrier shows where one of the two orders makes a difference.
// What it cannot show: other races within a block, memory accesses out of bounds (but the
// sanitizers see them), anything about time.
namespace cohort::on_cpu {

struct Index {
    unsigned x = 0;
    unsigned y = 0;
    unsigned z = 0;
};

/// The thread that runs now.
inline Index thread_index;
inline Index block_index;
inline Index block_extent;
inline Index grid_extent;

/// Runs the threads of one block after another.
class Machine {
public:
    static Machine& get() {
        static Machine machine;
        return machine;
    }

    void run_block(dim3 extent, const std::function<void()>& body) {
        const unsigned threads = extent.x * extent.y;
        body_ = &body;
        while (fibers_.size() < threads) {
            fibers_.push_back(std::make_unique<Fiber>());
        }
        for (unsigned t = 0; t < threads; ++t) {
            start(*fibers_[t]);
        }
        backwards_ = !backwards_;
        bool alive = true;
        while (alive) {  // a round: every thread runs to where it waits for the others
            alive = false;
            for (unsigned i = 0; i < threads; ++i) {
                const unsigned t = backwards_ ? threads - 1 - i : i;
                if (!fibers_[t]->ended) {
                    current_ = t;
                    thread_index = {t % extent.x, t / extent.x, 0};
                    swapcontext(&scheduler_, &fibers_[t]->context);
                    alive = alive || !fibers_[t]->ended;
                }
            }
        }
    }

    /// The running thread lets the others catch up.
    void wait() {
        const unsigned own = current_;
        swapcontext(&fibers_[own]->context, &scheduler_);
    }

    /// What lane `from(lane)` of the same warp hands in; the thread's own number beyond the warp.
    template <class T, class From>
    T shuffle(T value, From&& from) {
        static_assert(sizeof(T) <= sizeof(std::uint64_t));
        constexpr unsigned kWarp = 32;
        const unsigned own = current_;
        std::memcpy(&fibers_[own]->slot, &value, sizeof value);
        wait();
        const unsigned lane = from(own % kWarp);
        const unsigned other = lane < kWarp ? own / kWarp * kWarp + lane : own;
        T result{};
        std::memcpy(&result, &fibers_[other]->slot, sizeof result);
        wait();
        return result;
    }

private:
    struct Fiber {
        ucontext_t context{};
        std::vector<char> stack = std::vector<char>(std::size_t{64} << 10);
        std::uint64_t slot = 0;
        bool ended = false;
    };

    void start(Fiber& fiber) {
        fiber.ended = false;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = fiber.stack.size();
        fiber.context.uc_link = &scheduler_;
        makecontext(&fiber.context, &Machine::enter, 0);
    }
    static void enter() {
        Machine& machine = get();
        (*machine.body_)();
        machine.fibers_[machine.current_]->ended = true;
    }

    std::vector<std::unique_ptr<Fiber>> fibers_;
    ucontext_t scheduler_{};
    unsigned current_ = 0;
    bool backwards_ = true;  ///< the last block's order
    const std::function<void()>* body_ = nullptr;
};

/// What was asked of the device so far.
struct Asked {
    std::size_t work = 0;   ///< kernels, copies, calls of libraries; those of recordings too
    std::size_t waits = 0;  ///< for a stream's end
};
inline Asked asked;

/// Does the work at once, or notes it down while a stream records.
inline std::vector<std::function<void()>>* recorded = nullptr;
inline void submit(std::function<void()> work) {
    if (recorded != nullptr) {
        recorded->push_back(std::move(work));
    } else {
        ++asked.work;
        work();
    }
}

/// Blocks of a kernel that a multiprocessor has room for, whatever the kernel.
inline int resident_blocks = 2;
/// The order in which the blocks of a grid run.
inline bool blocks_backwards = false;

/// `kernel<<<grid, block, shared, stream>>>(arguments...)` becomes
/// `Launch(grid, block, shared, stream)([](auto... a) { kernel(a...); }, arguments...)`.
class Launch {
public:
    Launch(dim3 grid, dim3 block, int /*shared*/ = 0, cudaStream_t /*stream*/ = nullptr)
        : grid_(grid), block_(block) {}

    template <class Kernel, class... Arguments>
    void operator()(Kernel kernel, Arguments... arguments) const {
        submit([grid = grid_, block = block_, kernel, arguments...] {
            const std::function<void()> body = [&] { kernel(arguments...); };
            grid_extent = {grid.x, grid.y, grid.z};
            block_extent = {block.x, block.y, 1};
            const unsigned blocks = grid.x * grid.y * grid.z;
            for (unsigned i = 0; i < blocks; ++i) {
                const unsigned at = blocks_backwards ? blocks - 1 - i : i;
                block_index = {at % grid.x, at / grid.x % grid.y, at / grid.x / grid.y};
                Machine::get().run_block(block, body);
            }
        });
    }

private:
    dim3 grid_;
    dim3 block_;
};

}  // namespace cohort::on_cpu

// The names that kernels use.
#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
#define threadIdx cohort::on_cpu::thread_index
#define blockIdx cohort::on_cpu::block_index
#define blockDim cohort::on_cpu::block_extent
#define gridDim cohort::on_cpu::grid_extent
#define check_launch(kernel) static_cast<void>(kernel)
#define cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared) \
    (*(blocks) = cohort::on_cpu::resident_blocks, cudaSuccess)
inline void __syncthreads() {
    cohort::on_cpu::Machine::get().wait();
}
inline void __syncwarp() {
    cohort::on_cpu::Machine::get().wait();
}
template <class T>
T __shfl_down_sync(unsigned /*mask*/, T value, int distance) {
    return cohort::on_cpu::Machine::get().shuffle(
        value, [&](unsigned lane) { return lane + static_cast<unsigned>(distance); });
}
template <class T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int lanes) {
    return cohort::on_cpu::Machine::get().shuffle(
        value, [&](unsigned lane) { return lane ^ static_cast<unsigned>(lanes); });
}
inline void __threadfence() {
}
/// Blocks run one after another, and threads change only where they wait.
inline unsigned atomicInc(unsigned* counter, unsigned last) {
    const unsigned before = *counter;
    *counter = before >= last ? 0 : before + 1;
    return before;
}
template <class T>
T __ldcg(const T* from) {
    return *from;
}
inline float __fadd_rn(float a, float b) {
    return a + b;
}
inline float __fsub_rn(float a, float b) {
    return a - b;
}
inline float __fmul_rn(float a, float b) {
    return a * b;
}
using std::isfinite;
using std::max;
using std::min;

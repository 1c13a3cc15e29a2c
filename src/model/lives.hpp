#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "model/execution_order.hpp"
#include "tensor/arena.hpp"

namespace cohort {

/// First and last step that touches something.
struct Life {
    int first = std::numeric_limits<int>::max();
    int last = -1;
    std::size_t sample_bytes = 0;

    void touch(int step) {
        first = std::min(first, step);
        last = std::max(last, step);
    }
    [[nodiscard]] bool used() const { return last >= 0; }
};

/// Collects the lives of everything that needs memory.
class Lives {
public:
    Lives(const CompiledGraph& compiled, const ExecutionOrder& order);

    std::vector<Life> activations;  ///< per value that owns memory
    std::vector<Life> gradients;    ///< likewise
    std::vector<Life> saved;        ///< per node
    std::vector<Life> forward;      ///< per node: from its first to its last forward pass
    std::vector<Life> backward;
    std::vector<int> segment_of;  ///< per step

private:
    [[nodiscard]] Life& activation(int value);
    [[nodiscard]] Life& gradient(int value);
    void touch(const PlannedStep& planned, int at);
    void touch_gradients(const PlannedStep& planned, int output, int at);

    const CompiledGraph& compiled_;
    const ExecutionOrder& order_;
};

/// Asks for the memory of something that lives so long; `place` is to say where it lies.
using RequestPlace = std::function<void(const Life& life, Place& place)>;

/// Every value that owns memory, and what is saved between the passes of a node.
void request_tensors(const Lives& lives, const ExecutionOrder& order, TensorPlaces& places,
                     const RequestPlace& request);

/// Where gradient contributions wait before they are added. @param first  number of the first step
void request_additions(const CompiledGraph& compiled, std::vector<PlannedStep>& steps, int first,
                       const RequestPlace& request);

/// Memory to be placed, and where to note the result.
struct Request {
    ArenaRequest arena;
    std::size_t* offset;
};

/// Places them in one arena. @return its bytes
std::size_t place_requests(const std::vector<Request>& requests, std::size_t alignment = 64);

/// Values that share memory lie where its owner lies.
void share_places(const std::vector<int>& storage, std::vector<Place>& places);

}  // namespace cohort

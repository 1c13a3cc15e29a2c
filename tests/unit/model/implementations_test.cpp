// Which implementation computes what, in every model of the zoo: none is a reference, at whatever
// level of vector instructions oneDNN is held to (ONEDNN_MAX_CPU_ISA). Kernels are made and
// prepared as for training, but do not run. Prints a line per model; docs/processors.md sums them
// up.
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "cohort/model/zoo.hpp"
#include "core/tensor/cpu_team.hpp"
#include "layers/model/execution_plan.hpp"
#include "layers/model/executor.hpp"

namespace cohort {
namespace {

Graph make(const std::string& name, const Shape& image) {
    return reads_text(name)
               ? make_model(name, {.shape = Shape{35}, .classes = 1000, .tokens = true})
               : make_model(name, image, 10);
}

/// "forward" -> "jit:avx2" -> how many layers have it.
using Names = std::map<std::string, std::map<std::string, int>>;

void add_names(const Graph& graph, std::int64_t batch, bool training, Names& names) {
    const auto device = make_cpu_device(1);
    const auto stream = device->create_stream();
    const ExecutorSetting setting{.graph = graph,
                                  .device = *device,
                                  .stream = *stream,
                                  .training = training,
                                  .deterministic = true};
    CompiledGraph compiled(setting);
    static_cast<void>(plan_execution(compiled, batch, 1, 4 * cpu_l2_bytes()));
    for (std::size_t node = 0; node < compiled.kernels.size(); ++node) {
        if (compiled.kernels[node] == nullptr) {
            continue;
        }
        for (const auto& [part, name] : compiled.kernels[node]->implementations()) {
            ++names[part][name];
            EXPECT_EQ(name.find("ref"), std::string::npos)
                << graph.nodes()[node].name << ", " << part << ", batch " << batch << ": " << name;
        }
    }
}

std::string to_text(const Names& names) {
    std::string text;
    for (const auto& [part, counts] : names) {
        text += (text.empty() ? "" : "; ") + part + ":";
        for (const auto& [name, count] : counts) {
            text += " " + name + " x" + std::to_string(count);
        }
    }
    return text;
}

TEST(Implementations, AreNoReferencesInAnyModel) {
    std::cout << "instructions: " << cpu_isa() << ", oneDNN " << dnnl_version_text() << "\n";
    const std::vector<Shape> images{{1, 28, 28}, {3, 32, 32}, {3, 224, 224}};
    for (const std::string& model : model_names()) {
        if (!is_model(model)) {  // the form of a name with numbers in it
            continue;
        }
        for (const Shape& image : images) {
            std::vector<Graph> made;
            try {
                made.push_back(make(model, image));
            } catch (const ShapeError&) {
                continue;  // too small an image for it
            }
            Names names;
            for (const std::int64_t batch : {8, 32}) {
                add_names(made[0], batch, true, names);
                add_names(made[0], batch, false, names);
            }
            if (!names.empty()) {
                std::cout << model << " of " << to_string(image) << ": " << to_text(names) << "\n";
            }
            if (reads_text(model)) {
                break;
            }
        }
    }
}

}  // namespace
}  // namespace cohort

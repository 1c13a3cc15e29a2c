#include "cohort/core/error.hpp"
#include "cohort/model/zoo.hpp"
#include "core/units.hpp"
#include "data/hdf5/store.hpp"
#include "train/run/snapshot.hpp"

#include <algorithm>

namespace cohort {
namespace {

const StoreFormat kModelFormat{"cohort-model", 2};

void put_tensors(StoreWriter& writer, const std::string& group, const FlatLayout& layout,
                 const std::vector<float>& flat) {
    for (const FlatRange& range : layout.ranges()) {
        const auto values = std::span<const float>(flat).subspan(
            static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.size));
        writer.put(group + range.name, values, range.shape.extents());
    }
}

std::vector<float> get_tensors(const StoreReader& reader, const std::string& group,
                               const FlatLayout& layout) {
    for (const FlatRange& range : layout.ranges()) {  // before memory is allocated for them
        const auto found = reader.shape(group + range.name);
        if (!std::ranges::equal(found, range.shape.extents())) {
            fail<FileError>({.where = reader.path() + group + range.name,
                             .what = "the tensor does not fit the model",
                             .expected = to_string(range.shape),
                             .got = format_shape(found)});
        }
    }
    std::vector<float> flat(static_cast<std::size_t>(layout.total()), 0.0F);
    for (const FlatRange& range : layout.ranges()) {
        reader.read_into(group + range.name,
                         std::span<float>(flat).subspan(static_cast<std::size_t>(range.offset),
                                                        static_cast<std::size_t>(range.size)));
    }
    return flat;
}

std::vector<float> get_per_channel(const StoreReader& reader, const std::string& name,
                                   const ModelFile& model) {
    std::vector<float> values = reader.get<float>(name);
    const std::int64_t channels = model.sample_shape.empty() ? 0 : model.sample_shape.front();
    if (static_cast<std::int64_t>(values.size()) != channels) {
        fail<FileError>({.where = reader.path() + name,
                         .what = "the normalisation does not fit the samples",
                         .expected = std::to_string(channels) + " channels",
                         .got = std::to_string(values.size())});
    }
    return values;
}

}  // namespace

void write_model(const OutputFile& file, const Graph& graph, const ModelFile& model,
                 Hdf5Thread& thread) {
    StoreWriter writer(file, kModelFormat, thread);
    writer.set("/", "model", model.model);
    writer.set("/", "classes", model.classes);
    writer.put("/sample_shape", model.sample_shape);
    writer.put("/mean", model.mean);
    writer.put("/std", model.std);
    put_tensors(writer, "/parameters/", graph.parameters(), model.parameters);
    put_tensors(writer, "/state/", graph.state(), model.state);
    writer.commit();
}

ModelFile read_model(const std::string& path, Hdf5Thread& thread) {
    const StoreReader reader(path, thread);
    reader.require_format(kModelFormat);
    ModelFile model;
    model.model = reader.attribute<std::string>("/", "model");
    model.classes = reader.attribute<std::int64_t>("/", "classes");
    model.sample_shape = reader.get<std::int64_t>("/sample_shape");
    model.mean = get_per_channel(reader, "/mean", model);
    model.std = get_per_channel(reader, "/std", model);
    const Graph graph = make_model(model.model, Shape(model.sample_shape), model.classes);
    model.parameters = get_tensors(reader, "/parameters/", graph.parameters());
    model.state = get_tensors(reader, "/state/", graph.state());
    return model;
}

}  // namespace cohort

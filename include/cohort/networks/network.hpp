#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cohort/data/vocabulary.hpp"
#include "cohort/model/graph.hpp"
#include "cohort/model/source.hpp"

namespace cohort {

/// Checks the name of a model. Errors: UsageError unless a program builds the network, or the name
/// is that of a model of the zoo or ends in ".onnx".
void check_source(const ModelSource& source);
/// The samples that a network is described and measured with where there is no data set: `numbers`,
/// for a model of text 35 of 28,782 tokens, those that an ONNX file says. Errors: FileError.
[[nodiscard]] ModelInput usual_input(const ModelSource& source, const ModelInput& numbers);

/// Builds the network of a source for samples, with the initial values of an ONNX file or of
/// `source.init`.
/// @param news  sentences for people get here: tensors of a file of weights that found no
/// place and those that the file lacks; may be null
/// @param vocabulary  of the samples, where they are text that has one; else null
/// Errors: UsageError for an unknown name, ShapeError for samples that the network cannot take,
/// FileError for a file that cannot be read, has nodes that no layer can take over (all named at
/// once), or weights of another shape or of a model with another vocabulary.
[[nodiscard]] Graph make_graph(const ModelSource& source, const ModelInput& input,
                               std::vector<std::string>* news = nullptr,
                               const Vocabulary* vocabulary = nullptr);

/// A network as JSON (docs/networks.md): layers with their kinds, attributes, names and inputs, in
/// the order in which they were built; no weights. read_network makes the same network of it: the
/// same layout of parameters, the same initial values.
[[nodiscard]] std::string network_text(const Graph& graph);
/// The inverse. @param where  file, for messages  Errors: FileError for text that network_text
/// cannot have made.
[[nodiscard]] Graph read_network(std::string_view text, const std::string& where);
/// The first layer in which two texts of network_text differ, for people; empty when they describe
/// the same network, whatever its name. Errors: those of read_network.
[[nodiscard]] std::string network_difference(std::string_view text, std::string_view other,
                                             const std::string& where);

}  // namespace cohort

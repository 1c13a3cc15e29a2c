// AlexNet (Krizhevsky et al. 2012) in the form that STAR trains on small images: five convolutions
// without local response normalisation, one linear layer instead of three.
#include "layers/model/zoo/families.hpp"

namespace cohort::zoo {

Graph alexnet(const Shape& input, std::int64_t classes) {
    require_image("alexnet", input, 16);
    GraphBuilder net("alexnet", input);
    Value x = net.conv(net.input(), {.channels = 64, .kernel = 11, .stride = 4, .padding = 5});
    x = halve(net, net.relu(x));
    x = halve(net, net.relu(net.conv(x, {.channels = 192, .kernel = 5, .padding = 2})));
    for (const std::int64_t channels : {384, 256, 256}) {
        x = net.relu(net.conv(x, {.channels = channels, .kernel = 3, .padding = 1}));
    }
    x = halve(net, x);
    return net.finish(net.linear(net.flatten(x), {.features = classes}));
}

}  // namespace cohort::zoo

"""torch's encoder without gradients: it leaves out the ends of rows that a padding mask hides, and puts zeros there."""

import dynascope
import pytest
import torch
from torch import nn

HIDDEN = {
    "only ends": torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1], [0, 0, 1, 1, 1]]).bool(),
    "whole rows": torch.tensor([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [0, 0, 1, 1, 1]]).bool(),
    "between": torch.tensor([[0, 1, 0, 1, 1], [0, 0, 0, 0, 1], [0, 0, 1, 1, 1]]).bool(),
    "numbers that are added": torch.tensor([[0, 0, 0, -1.0, 2.5], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]),
}
GIVEN = torch.randn(3, 5, 16, generator=torch.Generator().manual_seed(0))


def an_encoder(layer, **settings):
    torch.manual_seed(0)
    return nn.TransformerEncoder(layer(16, 2, 32, batch_first=True, **settings), 1, norm=nn.LayerNorm(16)).eval()


@pytest.mark.filterwarnings("ignore")
@torch.no_grad()
def test_one_graph_for_all_masks():
    encoder = an_encoder(nn.TransformerEncoderLayer, activation="gelu")
    graphs = []

    def counted(graph, examples):
        graphs.append(graph)
        return graph

    compiled = dynascope.compile(encoder, backend=counted, fullgraph=True)
    for hidden in HIDDEN.values():
        torch.testing.assert_close(compiled(GIVEN, src_key_padding_mask=hidden), encoder(GIVEN, src_key_padding_mask=hidden))
    assert len(graphs) == 2  # of masks of bools, and of numbers


class Own(nn.TransformerEncoderLayer):
    def forward(self, source, **masks):
        return super().forward(source * 2, **masks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.expects("missing-meta-kernel", "tensor-subclass", "foreign-call")
@torch.no_grad()
def test_own_layers_get_what_they_get_in_eager():
    encoder = an_encoder(Own)
    hidden = HIDDEN["only ends"]
    result = dynascope.compile(encoder, backend="eager")(GIVEN, src_key_padding_mask=hidden)
    torch.testing.assert_close(result, encoder(GIVEN, src_key_padding_mask=hidden))
